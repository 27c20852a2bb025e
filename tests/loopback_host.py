"""An ssh server of our own on the loopback: a port, keys and a configuration that nobody else uses."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

SSHD = shutil.which("sshd") or next((p for p in ("/usr/sbin/sshd",) if Path(p).exists()), None)


class LoopbackHost:
    """Reached with `command`, as `SAMEBITS_SSH_COMMAND` has it, under the name `loopback`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        shutil.copy(folder / "user.pub", folder / "authorized")
        server = (
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\n"
            f"AuthorizedKeysFile {folder}/authorized\nPidFile {folder}/pid\n"
            "StrictModes no\nPasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\n"
        )
        (folder / "server").write_text(server)
        client = (
            f"Host loopback\n  HostName 127.0.0.1\n  Port {self.port}\n  IdentityFile {folder}/user\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        )
        (folder / "client").write_text(client)
        self.command = f"ssh -F {folder}/client"
        Path("/run/sshd").mkdir(exist_ok=True)
        self._server = subprocess.Popen([SSHD, "-D", "-f", folder / "server"], stderr=subprocess.DEVNULL)
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("the ssh server did not start")

    def drop_connections(self) -> None:
        """Ends every connection that is open, as a network does that goes away."""
        listed = subprocess.run(["pgrep", "-P", str(self._server.pid)], capture_output=True, text=True, check=False)
        for child in listed.stdout.split():
            subprocess.run(["pkill", "-KILL", "-P", child], check=False)
            subprocess.run(["kill", "-KILL", child], check=False)

    def close(self) -> None:
        self._server.terminate()
        self._server.wait()
