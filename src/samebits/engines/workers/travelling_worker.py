"""Our worker brought to where an engine is: what starts there, and what it reads first."""

from __future__ import annotations

import functools
import io
import json
import os
import shlex
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, BinaryIO, cast

from samebits.errors import EngineMissingError
from samebits.regular_files import OWN_FOLDER

# Runs there: it reads variables and samebits from standard input, keeps both in a folder that is removed when we are
# gone (by a second process, as an engine that hangs cannot do it), and becomes the worker.
_BEGINS = """
import atexit, io, json, os, select, shutil, signal, sys, tarfile, tempfile
if sys.version_info < (3, 11):
    sys.exit("Python 3.11 or later is needed there; this is " + sys.version.split()[0])
sys.path[:] = [path for path in sys.path if path]
stream = os.fdopen(os.dup(0), "rb", buffering=0)
def take(count):
    taken = b""
    while len(taken) < count:
        more = stream.read(count - len(taken))
        if not more:
            sys.exit("the connection ended")
        taken += more
    return taken
head = json.loads(take(int.from_bytes(take(8), "big")))
archive = io.BytesIO(take(head["bytes"]))
parent, folder = os.getpid(), tempfile.mkdtemp(prefix="samebits-")
# Where this process ends by itself it ends a container, and with it the second process, whatever that is at.
atexit.register(shutil.rmtree, folder, ignore_errors=True)
if os.fork() == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    watch = select.poll()
    watch.register(0, 0)
    while os.getppid() == parent and not watch.poll(1000):
        pass
    # In a container the kill ends this process too.
    shutil.rmtree(folder, ignore_errors=True)
    if os.getppid() == parent:
        os.kill(parent, signal.SIGKILL)
    os._exit(0)
sys.dont_write_bytecode = True
os.environ.update(head["environment"])
with tarfile.open(fileobj=archive) as packed:
    packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
sys.path.insert(0, folder)
try:
    import numpy
except ImportError as error:
    sys.exit(f"numpy is needed there ({error}); python3 -m pip install numpy")
sys.argv = ["worker", str(os.dup(1))]
from samebits.engines.workers.worker import main
main()
"""


@dataclass(frozen=True)
class TravellingWorker:
    """Our worker, started elsewhere by a program with these words; nothing of it stays there.

    As git has it, the environment variable `variable` names another program than the `usual` one, or the same with
    options. `place` says in messages where that is.
    """

    place: str
    variable: str
    usual: str
    words: tuple[str, ...]

    def start(self, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], BinaryIO]:
        """The connection, and the stream of the worker's answers; it waits for `write_beginning`.

        Raises EngineMissingError where there is no program that runs.
        """
        reach = _split_command(self.variable, os.environ.get(self.variable, self.usual))
        try:
            process = subprocess.Popen([*reach, *self.words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        except OSError as error:
            raise EngineMissingError(f"{self.place}: {reach[0]} cannot be run ({error.strerror})") from None
        return process, cast(BinaryIO, process.stdout)

    def close(self) -> None:
        """Nothing: what was there goes with the connection."""


def write_command(python: str | None) -> str:
    """What a shell there runs: the worker, by a Python there (`python3` unless named)."""
    return f"{_quote_program(python or 'python3')} -c {shlex.quote(_BEGINS)}"


def _quote_program(program: str) -> str:
    """A program's path as a word of a shell, which knows the home folder there."""
    home, rest = ("~/", program[2:]) if program.startswith("~/") else ("", program)
    return f"{home}{shlex.quote(rest)}"


def _split_command(variable: str, text: str) -> list[str]:
    try:
        if words := shlex.split(text):
            return words
    except ValueError:
        pass
    raise EngineMissingError(f"{variable}={text!r} names no program")


def write_beginning(environment: Mapping[str, str]) -> bytes:
    """What the worker there reads first: variables of the engine, and samebits."""
    archive = _pack()
    head = json.dumps({"environment": dict(environment), "bytes": len(archive)}).encode()
    return len(head).to_bytes(8, "big") + head + archive


@functools.cache
def _pack() -> bytes:
    """The source of samebits, without what Python compiled of it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path in sorted(OWN_FOLDER.rglob("*.py")):
            archive.add(path, f"samebits/{path.relative_to(OWN_FOLDER)}", recursive=False)
    return packed.getvalue()
