"""A Python elsewhere whose processes and folders are told from those of other tests that run meanwhile."""

import sys
import time
from pathlib import Path


class MarkedPython:
    """The program `path` is this Python: its processes carry a mark, its temporary folders are made in `temporary`."""

    def __init__(self, folder: Path) -> None:
        self.path, self.temporary = folder / "marked-python", folder / "temporary"
        self.temporary.mkdir()
        self._mark = f"mark-of-{folder}"
        self.path.write_text(f'#!/bin/sh\nTMPDIR={self.temporary} exec {sys.executable} "$@" {self._mark}\n')
        self.path.chmod(0o755)

    def list_processes(self):
        """The numbers of the processes that run now."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if self._mark.encode() in words:
                found.append(entry.parent.name)
        return found

    def wait_until_nothing_stays(self):
        """Fails where processes or folders stay for ten seconds."""
        for _ in range(100):
            if not self.list_processes() and not [*self.temporary.iterdir()]:
                return
            time.sleep(0.1)
        raise AssertionError(f"something stayed: {self.list_processes()}, {[*self.temporary.iterdir()]}")
