"""One hostile input, run in a process of its own in a folder of its own, and what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import shlex
import socket
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from samebits.cli import main
from samebits.display.endings import TRACEBACK_VARIABLE
from samebits.errors import SamebitsError

ANY, TROUBLE = frozenset({0, 1, 2}), frozenset({2})
LONGEST_S, LARGEST_BYTES = 60.0, 4 * 2**30
# What an input may take before the system stops it; more than what may be asked for, so that asking is seen.
_ADDRESS_SPACE_BYTES = 12 * 2**30
_STATUS_OF_TRACEBACK = 1
# C0 and C1 controls without the line's end, and the marks that turn the direction of text about.
_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_ENGINE_BROKE = re.compile(r"samebits: .* (?:crash|timeout|out-of-memory|error|unsupported): ")
_QUOTED = 300


@dataclass(frozen=True)
class File:
    """A file that lies in the folder when the command starts; `kind` is what it is in place of a regular file."""

    name: str
    data: bytes
    kind: str = ""

    def write(self, folder: Path) -> None:
        """Makes it, with the folders above it."""
        path = folder / self.name
        if self.kind == "folder":
            path.mkdir()
        elif self.kind == "fifo":
            os.mkfifo(path)
        elif self.kind in ("loop", "dangling", "link"):
            path.symlink_to({"loop": self.name, "dangling": "nowhere"}.get(self.kind) or os.fsdecode(self.data))
        elif self.kind == "socket":
            with contextlib.chdir(folder), socket.socket(socket.AF_UNIX) as listening:
                listening.bind(self.name)
        else:
            path.write_bytes(self.data)
            if self.kind == "unreadable":
                path.chmod(0)


@dataclass(frozen=True)
class Attack:
    """A command line with the files it needs, or Python code; and the exit statuses that are right."""

    kind: str
    arguments: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    expected: frozenset[int] = ANY
    code: str = ""

    def show(self) -> str:
        """What to type to see it again; long arguments are shortened."""
        if self.code:
            return f"python -c {shlex.quote(self.code)}"
        words = [a if len(a) <= _QUOTED else f"{a[:_QUOTED]}...({len(a):,} characters)" for a in self.arguments]
        files = "".join(f"  [{f.name!r} {f.kind or f'{len(f.data):,} bytes'}]" for f in self.files)
        return f"samebits {ascii(shlex.join(words))[1:-1]}{files}"


@dataclass(frozen=True)
class Outcome:
    """How an input ended. A negative status is the signal that ended it."""

    status: int
    out: str
    err: str
    time_s: float
    peak_bytes: int
    written: tuple[str, ...] = ()
    left_running: bool = False


def start_attack(attack: Attack, folder: Path, *, as_program: bool) -> int:
    """Starts it in a forked child (its number is returned), or as a program of its own; `folder` is made."""
    for name in ("work", "home", "tmp"):
        (folder / name).mkdir(parents=True)
    for file in attack.files:
        file.write(folder / "work")
    (folder / "listed").write_text(json.dumps(list_files(folder)))
    child = os.fork()
    if child:
        return child
    status = 70
    try:
        status = _be_child(attack, folder, as_program)
    except BaseException:
        traceback.print_exc()
        status = _STATUS_OF_TRACEBACK
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _be_child(attack: Attack, folder: Path, as_program: bool) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder / "work")
    os.environ |= {
        "HOME": str(folder / "home"),
        "TMPDIR": str(folder / "tmp"),
        "COLUMNS": "100",
        TRACEBACK_VARIABLE: "1",
    }
    tempfile.tempdir = None
    streams = (
        (os.devnull, os.O_RDONLY),
        (folder / "out", os.O_WRONLY | os.O_CREAT),
        (folder / "err", os.O_WRONLY | os.O_CREAT),
    )
    for number, (path, flags) in enumerate(streams):
        os.dup2(os.open(path, flags), number)
    if as_program:
        code = ("-c", attack.code) if attack.code else ("-m", "samebits", *attack.arguments)
        os.execv(sys.executable, [sys.executable, *code])
    # Buffers of the parent's streams hold nothing, but were made for other files.
    sys.stdout, sys.stderr = (open(n, "w", closefd=False) for n in (1, 2))  # noqa: SIM115  (the process's own)
    _limit_free_memory()
    if not attack.code:
        return main(attack.arguments)
    try:
        exec(attack.code, {})
    except SamebitsError as error:
        print(f"samebits: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _limit_free_memory() -> None:
    """Samebits finds as much memory free as an input may take, so that it has to refuse what would take more."""
    for module in [m for n, m in sys.modules.items() if n.startswith("samebits.")]:
        if hasattr(module, "count_available_bytes"):
            setattr(module, "count_available_bytes", lambda: float(LARGEST_BYTES))  # noqa: B010  (a name of the module)


def list_files(folder: Path) -> list[str]:
    """Every file below a folder, by its path there."""
    return sorted(
        _printable(os.path.relpath(os.path.join(parent, name), folder))
        for parent, folders, files in os.walk(folder)
        for name in (*folders, *files)
        if parent != str(folder)
    )


def _printable(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def end_attack(folder: Path, status: int, started: float, usage: resource.struct_rusage, child: int) -> Outcome:
    """What a child that has ended left behind; whatever still runs in its session is killed."""
    time_s = time.monotonic() - started
    out, err = (
        (folder / n).read_bytes().decode("utf-8", "replace") if (folder / n).exists() else "" for n in ("out", "err")
    )
    before = set(json.loads((folder / "listed").read_text()))
    written = tuple(sorted(set(list_files(folder)) - before))
    left = False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, 0)
        time.sleep(0.3)
        os.killpg(child, 9)
        left = True
    return Outcome(os.waitstatus_to_exitcode(status), out, err, time_s, usage.ru_maxrss * 1024, written, left)


# Lines that tell of progress, or of what a large problem takes.
_TOLD = r"samebits: (.* \.\.\.|a large problem: .*)"


def judge_outcome(attack: Attack, outcome: Outcome) -> list[str]:
    """What is wrong with it, each in a few words that are the same for the same fault; nothing for most."""
    wrong: list[str] = []
    lines = [line for line in outcome.err.splitlines() if not re.fullmatch(_TOLD, line)]
    if "Traceback" in outcome.err + outcome.out:
        wrong.append(f"traceback: {_name_error(outcome.err)}")
    elif outcome.status < 0 and outcome.time_s < LONGEST_S:
        wrong.append(f"ended by signal {-outcome.status}")
    elif outcome.status not in attack.expected and outcome.time_s < LONGEST_S:
        wrong.append(f"status {outcome.status}, not {' or '.join(map(str, sorted(attack.expected)))}")
    elif outcome.status == 2 and len(lines) != 1 and not (lines and all(map(_ENGINE_BROKE.match, lines))):
        wrong.append(f"{len(lines)} lines on standard error")
    elif any(not line.startswith("samebits: ") for line in lines):
        wrong.append(f"on standard error: {lines[0][:80]!r}")
    if outcome.time_s >= LONGEST_S and "a large problem:" not in outcome.err:
        wrong.append(f"over {LONGEST_S:.0f} s")
    if outcome.peak_bytes > LARGEST_BYTES:
        wrong.append(f"over {LARGEST_BYTES / 2**30:.0f} GiB")
    if "memory ran out" in outcome.err:
        wrong.append("memory ran out, not refused beforehand")
    wrong += _judge_output(attack, outcome)
    if outcome.left_running:
        wrong.append("left a process running")
    return wrong


def _judge_output(attack: Attack, outcome: Outcome) -> list[str]:
    wrong: list[str] = []
    for name, text in (("output", outcome.out), ("standard error", outcome.err)):
        control = _CONTROLS.search(text)
        if control:
            wrong.append(f"control character {control[0]!r} on {name}")
    if "--json" in attack.arguments and "--help" not in attack.arguments and outcome.status in (0, 1) and outcome.out:
        try:
            json.loads(outcome.out, parse_constant=_refuse_constant)
        except ValueError as error:
            wrong.append(f"no JSON: {str(error)[:60]}")
    words = [w for a in attack.arguments for w in (a, a.partition("=")[2]) if w]
    allowed = {_printable(f"work/{Path(w)}") for w in words if "--svg" in " ".join(attack.arguments)}
    # Importing torch makes an empty folder for what it may compile.
    written = [n for n in outcome.written if n not in allowed and not n.startswith("tmp/torchinductor_")]
    if written:
        wrong.append(f"written: {', '.join(written)[:100]}")
    return wrong


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _name_error(err: str) -> str:
    """The error and the last of our lines that it went through."""
    places = re.findall(r'File "[^"]*?(samebits/[^"]+)", line (\d+)', err)
    says = [
        line for line in err.splitlines() if re.match(r"[\w.]*(?:Error|Exception|Interrupt|Warning|Iteration)\b", line)
    ]
    where = f" ({places[-1][0]}:{places[-1][1]})" if places else ""
    return f"{(says or ['?'])[-1][:100]}{where}"
