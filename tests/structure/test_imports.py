"""Importing the package costs next to nothing and loads nobody's library."""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import samebits

SOURCE = Path(samebits.__file__).parent.parent
FRAMEWORKS = ("torch", "tensorflow", "jax", "openvino", "onnxruntime")
COMPILERS = ("numba", "llvmlite")

untraced = pytest.mark.skipif(
    "COVERAGE_PROCESS_CONFIG" in os.environ, reason="measuring coverage takes time of its own"
)


def run_python(code: str, *flags: str) -> str:
    command = [sys.executable, *flags, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_package_imports_in_a_bare_environment():
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import samebits; print(samebits.__version__)"
    assert run_python(code, "-I", "-S").strip() == samebits.__version__


def test_importing_loads_no_framework_no_compiler_and_no_array_library():
    loaded = run_python("import samebits, sys; print(*sys.modules)").split()
    assert not {*FRAMEWORKS, *COMPILERS, "numpy", "onnx"} & set(loaded)


@untraced
def test_importing_takes_less_than_three_tenths_of_a_second():
    code = "import time; t = time.perf_counter(); import samebits; print(time.perf_counter() - t)"
    assert statistics.median(float(run_python(code)) for _ in range(5)) < 0.3


def test_the_library_without_its_engines_loads_no_framework():
    code = "import samebits, sys; samebits.compare, samebits.conv2d; print(*sys.modules)"
    assert not set(FRAMEWORKS) & set(run_python(code).split())


def test_reading_all_engine_files_loads_no_framework():
    code = (
        "import sys; from samebits.engines.registry.known_engines import ENGINES\n"
        "for spec in ENGINES.values(): spec.load_class(); spec.find_version()\n"
        "print(*sys.modules)"
    )
    assert not set(FRAMEWORKS) & set(run_python(code).split())


def used_by(code: str) -> tuple[float, str]:
    """Seconds of processor, which other work on the machine lengthens less than the clock's; the standard error."""
    begun = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - begun.ru_utime - begun.ru_stime, done.stderr


DOCTOR = "import sys; from samebits.cli import main; main(['doctor', '--json']); print(*sys.modules, file=sys.stderr)"


def test_doctor_loads_no_framework():
    assert not {*FRAMEWORKS, *COMPILERS} & set(used_by(DOCTOR)[1].split())


@untraced
def test_doctor_takes_little_longer_than_loading_what_it_is_built_on(monkeypatch):
    # The emulator is asked what it knows by running it a dozen times; that is its own time.
    monkeypatch.setenv("SAMEBITS_QEMU_COMMAND", "/no/such/emulator")
    built_on = "import numpy, pydantic, rich.console, typer; from importlib import metadata; metadata.distributions()"
    times = [(used_by(DOCTOR)[0], used_by(built_on)[0]) for _ in range(3)]
    assert min(doctor for doctor, _ in times) < 4 * min(built for _, built in times), times


def test_parts_are_reached_from_the_top():
    code = "import samebits; print(samebits.testing.__name__, samebits.errors.__name__, samebits.engine.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["samebits.testing", "samebits.errors", "samebits.engine"]
