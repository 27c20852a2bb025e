"""Releases of an engine's package: each in an environment of its own, made once and kept with the user's caches.

Nothing is installed unless the person said so: at the terminal, or by SAMEBITS_INSTALL=yes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from samebits.engines.workers.other_python import OtherPython, run_briefly
from samebits.errors import EngineMissingError
from samebits.limits import Limit

INSTALL = "SAMEBITS_INSTALL"
_FOLDER = "SAMEBITS_ENVIRONMENTS"
# What all environments together may hold; those not used for the longest go first.
KEPT_BYTES = Limit("SAMEBITS_MOST_ENVIRONMENT_BYTES", 20 * 2**30, "of environments", in_bytes=True)
# As PEP 440 writes versions; no other requirement, option or address passes.
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*((a|b|rc|\.?post|\.?dev)[0-9]+)*(\+[A-Za-z0-9.]+)?")
# How often an environment that somebody else removes is made again.
_MOST_TURNS = 3
# The slowest packages are gigabytes.
_SLOWEST_INSTALL_S, _SLOWEST_IMPORT_S = 1800, 600
_COMPLETE = "complete"
# Packages are built for one Python.
_ENDING = f"-py{sys.version_info.major}{sys.version_info.minor}"
# The modules that the packages bring, imported, by the names under which they were asked for. What was built for
# NumPy 1 looks for its functions in `numpy.core`, where NumPy 2 has none: it fails, at once or when it is handed the
# first array.
_IMPORTS = """import importlib, re, sys
from importlib import metadata
def plain(name):
    return re.sub("[-_.]+", "-", name).lower()
wanted, skipped = {plain(name) for name in sys.argv[1:]}, {"test", "tests", "docs", "examples", "benchmarks"}
for name, brought_by in metadata.packages_distributions().items():
    if wanted & set(map(plain, brought_by)) and name.isidentifier() and name[0] != "_" and name not in skipped:
        importlib.import_module(name)
import numpy
if numpy.__version__[:2] != "1." and {"numpy.core.multiarray", "numpy.core._multiarray_umath"} & set(sys.modules):
    sys.exit("it was built for NumPy 1")"""


@dataclass(frozen=True)
class Release:
    """A package and its version, and what else its environment needs, as pip takes it."""

    package: str
    version: str
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class ReleasePython(OtherPython):
    """The Python of a release's environment; while it is open the environment is not removed.

    Raises EngineMissingError where the environment is not there and nobody allowed to make it, or it cannot be made.
    """

    def __init__(self, release: Release) -> None:
        # Somebody may remove an environment until it is held.
        folder = held = None
        for _ in range(_MOST_TURNS):
            folder = find_environment(release) or make_environment(release)
            if (held := _hold(folder)) is not None:
                break
        if folder is None or held is None:
            raise EngineMissingError(f"{release}: its environment is removed by others again and again")
        self._held = held
        try:
            super().__init__(str(find_program(folder)))
        except BaseException:
            self._held.close()
            raise

    def close(self) -> None:
        """Lets go of the environment."""
        super().close()
        self._held.close()


def check_version(text: str) -> bool:
    """Whether a text is a version and nothing else.

    >>> [check_version(text) for text in ("1.20.1", "2.0rc1", ">=1", "1.0 --index x", "")]
    [True, True, False, False, False]
    """
    return _VERSION.fullmatch(text) is not None


def may_install() -> bool:
    """Whether the person lets environments be made."""
    return os.environ.get(INSTALL) == "yes"


def find_environments() -> Path:
    """The folder in which environments lie, which need not be there yet."""
    if own := os.environ.get(_FOLDER):
        return Path(own).absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "samebits" / "environments"


def find_environment(release: Release) -> Path | None:
    """The folder of a release's environment; None where it was not made yet."""
    folder = _place(release)
    return folder if (folder / _COMPLETE).is_file() else None


def list_made(package: str) -> list[str]:
    """The versions of a package that have environments here."""
    found: list[str] = []
    for path in sorted(find_environments().glob(f"{package}-*{_ENDING}")):
        version = path.name.removeprefix(f"{package}-").removesuffix(_ENDING)
        if check_version(version) and (path / _COMPLETE).is_file():
            found.append(version)
    return found


def list_published(package: str) -> list[str]:
    """The versions of a package that can be installed here, from old to new, as pip's index names them.

    Raises EngineMissingError where pip is not there or its index cannot be asked.
    """
    words = (sys.executable, "-P", "-m", "pip", "index", "versions", package, "--disable-pip-version-check")
    done = run_briefly(words, f"the versions of {package} cannot be asked for")
    for line in done.stdout.splitlines():
        before, colon, after = line.partition("versions:")
        if colon and before.strip().lower() == "available":
            return [one.strip() for one in reversed(after.split(",")) if check_version(one.strip())]
    last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
    raise EngineMissingError(f"the versions of {package} cannot be asked for ({last[:160]})")


def _place(release: Release) -> Path:
    return find_environments() / f"{release.package}-{release.version}{_ENDING}"


def find_program(folder: Path) -> Path:
    """The Python of an environment."""
    return folder / "bin" / "python"


def _hold(folder: Path) -> IO[bytes] | None:
    """The environment's mark, held by a lock that others may share; its time says when it was used last.

    None where the environment was removed in the meantime.
    """
    mark = folder / _COMPLETE
    try:
        held = mark.open("rb")
    except FileNotFoundError:
        return None
    fcntl.flock(held, fcntl.LOCK_SH)
    try:
        same = os.path.samestat(os.fstat(held.fileno()), mark.stat())
        os.utime(mark)
    except OSError:
        same = False
    if not same:
        held.close()
        return None
    return held


def make_environment(release: Release) -> Path:
    """Makes a release's environment, if nobody else has; raises EngineMissingError where nobody allowed it to."""
    folder = _place(release)
    if not may_install():
        raise EngineMissingError(
            f"{release} is not installed; --install, or {INSTALL}=yes, installs it into {find_environments()}"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / f"{folder.name}.lock"):
        # Somebody else may have made it in the meantime.
        if not (folder / _COMPLETE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                _install(release, folder)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            (folder / _COMPLETE).write_text("\n".join([str(release), *release.also, ""]))
    _remove_oldest(folder)
    return folder


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _install(release: Release, folder: Path) -> None:
    """An environment that imports the release; with an older NumPy where it needs one."""
    wanted = (f"{release.package}=={release.version}", *release.also)
    venv, pip = _find_tools(folder)
    _run(venv, f"no environment for {release} can be made")
    _run((*pip, *wanted, "numpy"), f"{release} cannot be installed")
    failed = _try_import(release, folder)
    if failed is not None:
        # Releases from before NumPy 2 do not say that they need NumPy 1.
        _run((*pip, *wanted, "numpy<2"), f"{release} is installed and cannot be imported ({failed})")
        failed = _try_import(release, folder)
    if failed is not None:
        raise EngineMissingError(f"{release} is installed and cannot be imported ({failed})")


def _find_tools(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The commands that make an environment and install into it: uv's where it is there, else venv and our pip."""
    program = str(find_program(folder))
    if uv := shutil.which("uv"):
        made = (uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        return made, (uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", program)
    made = (sys.executable, "-P", "-m", "venv", "--without-pip", str(folder))
    quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--only-binary", ":all:")
    return made, (sys.executable, "-P", "-m", "pip", "--python", program, "install", *quiet)


def _run(words: Sequence[str], trouble: str) -> None:
    """Runs a command to its end; raises EngineMissingError, with its last line of error, where it fails."""
    try:
        # What lies in the current folder, a pip.py or a pyproject.toml, is no part of it.
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SLOWEST_INSTALL_S, check=False,
            env=_list_variables(), cwd=find_environments(),
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineMissingError(
            f"{trouble} ({error.strerror if isinstance(error, OSError) else 'too slow'})"
        ) from None
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if "error" in line.lower()]
        raise EngineMissingError(f"{trouble} ({(said or ['it fails and says nothing'])[-1][:200]})")


def _list_variables() -> dict[str, str]:
    """Our environment, without what it says of this Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _try_import(release: Release, folder: Path) -> str | None:
    """Why the release cannot be imported; None where it can."""
    words = (str(find_program(folder)), "-P", "-c", _IMPORTS, release.package)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SLOWEST_IMPORT_S, check=False,
            env=_list_variables(), cwd=folder,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return error.strerror if isinstance(error, OSError) else "it does not end"
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it ends at once"])[-1][:120]


def _remove_oldest(kept: Path) -> None:
    """Removes environments that nobody uses, the longest unused first, until all together are within the limit."""
    used: dict[Path, float] = {}
    for mark in kept.parent.glob(f"*/{_COMPLETE}"):
        # Others may remove some at the same time.
        with contextlib.suppress(OSError):
            used[mark] = mark.stat().st_mtime
    sizes = {mark: _measure(mark.parent) for mark in used}
    total, most = sum(sizes.values()), KEPT_BYTES.read()
    for mark in sorted(used, key=lambda one: used[one]):
        if total <= most:
            return
        if mark.parent == kept:
            continue
        with contextlib.suppress(OSError), mark.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Without its mark it is none any more, whatever ends this process now.
            mark.unlink()
            shutil.rmtree(mark.parent, ignore_errors=True)
            total -= sizes[mark]


def _measure(folder: Path) -> int:
    """The bytes of a folder's files, of those that are still there."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(path) / name).lstat().st_size
    return total
