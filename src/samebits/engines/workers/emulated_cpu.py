"""Another processor on this machine: a Python that qemu's user mode runs, as a processor of a given model.

Libraries choose their kernels by what the processor says that it can do, and their arithmetic is that of the kernels.
The emulator answers for the model, and computes what its instructions compute. A model whose instructions it does not
know all is refused: libraries would take the kernels of another processor. Sources: qemu's documentation of user mode
and of its models; the psABI of x86-64 for the levels v2 and v3.
"""

from __future__ import annotations

import difflib
import functools
import os
import platform
import re
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from samebits.engines.workers.other_python import NEEDS, OtherPython, run_briefly
from samebits.errors import EngineMissingError

# Names that people use for what the emulator calls otherwise, without spaces and in small letters.
_ALSO_NAMED = {
    "x86-64-v2": "Nehalem",
    "x86-64-v3": "Haswell",
    "x86-64-v4": "Skylake-Server",
    "westmere-ep": "Westmere",
    "skylake": "Skylake-Client",
    "skylake-x": "Skylake-Server",
    "skylakex": "Skylake-Server",
    "cascadelake": "Cascadelake-Server",
    "icelake": "Icelake-Server",
    "sapphirerapids": "SapphireRapids",
    "zen": "EPYC",
    "zen1": "EPYC",
    "naples": "EPYC",
    "zen2": "EPYC-Rome",
    "rome": "EPYC-Rome",
    "zen3": "EPYC-Milan",
    "milan": "EPYC-Milan",
    "zen4": "EPYC-Genoa",
    "genoa": "EPYC-Genoa",
    "zen5": "EPYC-Turin",
    "turin": "EPYC-Turin",
}
# From older to newer, Intel's and AMD's.
_USUAL = (
    "Nehalem", "Westmere", "SandyBridge", "IvyBridge", "Haswell", "Broadwell", "Skylake-Client", "Skylake-Server",
    "Cascadelake-Server", "Icelake-Server", "SapphireRapids", "EPYC", "EPYC-Rome", "EPYC-Milan", "EPYC-Genoa",
    "EPYC-Turin",
)  # fmt: skip
NATIVE = "native"
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,60}")
_LISTED = re.compile(r"^x86\s+(\S+)", re.MULTILINE)
_LACKED = re.compile(r"doesn't support requested feature: \S*?\.([a-z0-9-]+) \[bit")
# Instructions that compute: libraries choose kernels by them. What else a processor has does not compute.
_COMPUTES = re.compile(r"avx|amx|sse|ssse|fma|f16c|xop|gfni|bf16|vnni")
_DOES_NOT_COMPUTE = {"misalignsse"}
_PROGRAMS = ("qemu-x86_64-static", "qemu-x86_64")
_VARIABLE = "SAMEBITS_QEMU_COMMAND"
# Small problems took some 20 times as long where they were tried, large products 170 to 640 times; a limit is no
# measurement, and one of hours is none.
SLOWER = 20
# NumPy 1 has it elsewhere.
_ASKS = f"""{NEEDS}
f = getattr(numpy, "_core", None) or numpy.core
print(*(n for n, has in f._multiarray_umath.__cpu_features__.items() if has))"""
_SHOWN = ("AVX512F", "AVX2", "AVX", "FMA3", "F16C", "SSE42")


@dataclass(frozen=True)
class Emulated:
    """A model as the emulator has it, what runs programs as it, and the features that a program sees there."""

    model: str
    words: tuple[str, ...]
    version: str
    features: tuple[str, ...]

    def describe(self) -> str:
        """The processor in a few words, as read back from inside."""
        shown = [name for name in _SHOWN if name in self.features]
        return f"{self.model} emulated by qemu {self.version} ({', '.join(shown) or 'SSE2'})"


class EmulatedPython:
    """A Python, this one or another, run as another processor.

    Raises EngineMissingError where the emulator is not there or does not know the model whole, and as OtherPython does.
    """

    def __init__(self, model: str, python: OtherPython | None = None) -> None:
        self._python = python
        try:
            self.emulated = find_emulated(model, None if self._python is None else self._python.words[0])
        except BaseException:
            self.close()
            raise
        self.words = self.emulated.words

    def adapt(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the worker."""
        return dict(environment) if self._python is None else self._python.adapt(environment)

    def close(self) -> None:
        """Removes what the other Python needed."""
        if self._python is not None:
            self._python.close()


def check_model(text: str) -> bool:
    """Whether a text may name a model: no option of the emulator's, no list of features."""
    return _MODEL.fullmatch(text) is not None


@functools.lru_cache(maxsize=64)
def find_emulated(name: str, python: str | None = None) -> Emulated:
    """The emulator's model of that name, tried with a Python; raises EngineMissingError, which says what is lacking."""
    program = find_emulator()
    model = _find_model(program, name)
    words = (program, "-cpu", model, sys.executable if python is None else python)
    done = run_briefly((*words, "-P", "-c", _ASKS), f"cpu={name}: Python cannot be run as a {model}")
    lacked = _list_lacked(done.stderr)
    version = _ask_version(program)
    if lacked:
        raise EngineMissingError(
            f"cpu={name}: qemu {version} does not emulate {', '.join(lacked[:6])}, which a {model} has: libraries would"
            " compute there with other kernels than on that processor"
        )
    if done.returncode:
        said = [line for line in done.stderr.strip().splitlines() if "warning: TCG" not in line]
        raise EngineMissingError(f"cpu={name}: Python does not run as a {model} ({(said or ['it ends'])[-1][:160]})")
    return Emulated(model, words, version, tuple(done.stdout.split()))


def find_emulator() -> str:
    """The emulator's program; raises EngineMissingError where there is none for this machine."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise EngineMissingError("cpu= emulates x86-64 processors on Linux on x86-64, and this machine is another one")
    given = os.environ.get(_VARIABLE)
    for name in (given,) if given else _PROGRAMS:
        if found := shutil.which(name):
            return found
    raise EngineMissingError(
        f"cpu= needs qemu's user mode{f', and {_VARIABLE}={given} is no program' if given else ''}:"
        " apt install qemu-user-static (Fedora: dnf install qemu-user-static-x86)"
    )


def describe_emulator() -> str:
    """The emulator and its version; raises EngineMissingError where there is none for this machine."""
    return f"qemu {_ask_version(find_emulator())}"


def list_models() -> list[str]:
    """The usual models that the emulator on this machine has whole; raises EngineMissingError where there is none."""
    program = find_emulator()
    known = set(_LISTED.findall(_ask_models(program)))
    tried = [name for name in _USUAL if name in known]

    def is_whole(name: str) -> bool:
        # Itself is a program that every one of them can run.
        done = run_briefly((program, "-cpu", name, program, "--version"), f"cpu={name}: it cannot be run")
        return done.returncode == 0 and not _list_lacked(done.stderr)

    with ThreadPoolExecutor() as pool:
        return [name for name, whole in zip(tried, pool.map(is_whole, tried), strict=True) if whole]


def _list_lacked(says: str) -> list[str]:
    """The computing instructions that the emulator says it lacks of a model."""
    lacked = [name for name in dict.fromkeys(_LACKED.findall(says)) if _COMPUTES.search(name)]
    return [name for name in lacked if name not in _DOES_NOT_COMPUTE]


def _find_model(program: str, name: str) -> str:
    known = {model.lower(): model for model in _LISTED.findall(_ask_models(program))}
    plain = re.sub(r"\s+", "", name).lower()
    model = _ALSO_NAMED.get(plain, plain)
    if found := known.get(model.lower()):
        return found
    if plain in _ALSO_NAMED:
        raise EngineMissingError(f"cpu={name}: qemu {_ask_version(program)} knows no {model}; a newer one may")
    close = difflib.get_close_matches(plain, [*known, *_ALSO_NAMED, NATIVE], 1)
    hint = f" (did you mean {known.get(close[0], close[0])}?)" if close else ""
    lists = f"{os.path.basename(program)} -cpu help lists them"
    raise EngineMissingError(f"cpu={name}: no processor that qemu knows{hint}; {lists}")


@functools.cache
def _ask_models(program: str) -> str:
    return run_briefly((program, "-cpu", "help"), f"cpu=: {program} cannot be run").stdout


@functools.cache
def _ask_version(program: str) -> str:
    found = re.search(r"version (\S+)", run_briefly((program, "--version"), f"cpu=: {program} cannot be run").stdout)
    return found.group(1) if found else "of unknown version"
