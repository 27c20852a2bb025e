"""Engines run as another processor: what is read, refused and read back; their bits beside native switches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import samebits
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.workers import emulated_cpu
from samebits.engines.workers.place import HERE
from samebits.errors import EngineCrashed, EngineMissingError, RunnerTextError
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

HAS_EMULATOR = any(shutil.which(name) for name in ("qemu-x86_64-static", "qemu-x86_64"))
emulated = pytest.mark.skipif(not HAS_EMULATOR, reason="no qemu-user: apt install qemu-user-static")
PROBLEM = parse_problem_text("linear x=3x8 w=4x8")
FLAGS = Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split() if os.name == "posix" else []


@pytest.fixture(autouse=True)
def forget_models():
    """A program by another name is asked again."""
    yield
    for known in (emulated_cpu.find_emulated, emulated_cpu._ask_models, emulated_cpu._ask_version):
        known.cache_clear()


def test_the_text_is_read_and_printed_back():
    for text in ("numpy:cpu=Haswell", "torch:python=~/py,cpu=EPYC-Rome,threads=1,env.A=b"):
        assert format_runner_text(parse_runner_text(text)) == text
    assert parse_runner_text("numpy:cpu=native").place == HERE
    assert parse_runner_text("torch:cpu=native,compile=on").settings == {"compile": "on"}


@pytest.mark.parametrize(
    "text", ["numpy:cpu=", "numpy:cpu=--help", "numpy:cpu=a;b", "numpy:cpu=a/b", "truth:cpu=Haswell",
             "numpy:ssh=box,cpu=Haswell", "numpy:docker=image,cpu=Haswell", "numpy:cpu=a,cpu=b",
             "torch:cpu=Haswell,compile=on"],
)  # fmt: skip
def test_what_names_no_processor_is_refused_before_anything_runs(text):
    with pytest.raises(RunnerTextError):
        parse_runner_text(text)


def pretend(monkeypatch, tmp_path, script):
    """An emulator of a few lines: it knows Haswell and Modern."""
    program = tmp_path / "qemu"
    program.write_text(
        '#!/bin/sh\n[ "$2" = help ] && { echo "x86 Haswell  (alias)"; echo "x86 Modern  (alias)"; exit; }\n'
        f'[ "$1" = --version ] && {{ echo "qemu-x86_64 version 9.9.9"; exit; }}\n{script}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("SAMEBITS_QEMU_COMMAND", str(program))


LACKS = 'echo "qemu: warning: TCG doesn\'t support requested feature: CPUID.07H:{} [bit 1]" >&2'


@pytest.mark.skipif(sys.platform != "linux", reason="emulated on Linux alone")
@pytest.mark.parametrize(
    ("name", "script", "says"),
    [
        ("Modern", f"{LACKS.format('EBX.avx512f')}; echo SSE42", "9.9.9 does not emulate avx512f, which a Modern has"),
        ("Modern", f"{LACKS.format('EDX.amx-tile')}; echo SSE42", "does not emulate amx-tile"),
        ("Haswel", "", r"no processor that qemu knows \(did you mean Haswell\?\)"),
        ("Zen 4", "", "knows no EPYC-Genoa; a newer one may"),
        ("haswell", "echo 'Illegal instruction' >&2; exit 132", r"does not run as a Haswell \(Illegal instruction\)"),
        ("haswell", "exit 1", r"does not run as a Haswell \(it ends\)"),
    ],
)
def test_what_cannot_be_emulated_whole_is_refused_in_one_line(name, script, says, tmp_path, monkeypatch):
    pretend(monkeypatch, tmp_path, script)
    with pytest.raises(EngineMissingError, match=says) as raised:
        open_runner(f"numpy:cpu={name}")
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="emulated on Linux alone")
def test_what_makes_no_numbers_may_be_lacking(tmp_path, monkeypatch):
    script = f'{LACKS.format("EBX.rdseed")}; {LACKS.format("ECX.x2apic")}; shift 2; exec "$@"'
    pretend(monkeypatch, tmp_path, script)
    with open_runner("numpy:cpu=Haswell") as runner:
        assert "Haswell emulated by qemu 9.9.9" in runner.identify().device


@pytest.mark.skipif(sys.platform != "linux", reason="emulated on Linux alone")
def test_without_an_emulator_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("SAMEBITS_QEMU_COMMAND", "no-such-program")
    with pytest.raises(EngineMissingError, match=r"SAMEBITS_QEMU_COMMAND=no-such-program is no program: apt install"):
        open_runner("numpy:cpu=Haswell")
    monkeypatch.delenv("SAMEBITS_QEMU_COMMAND")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineMissingError, match="apt install qemu-user-static"):
        open_runner("numpy:cpu=Haswell")


def test_an_instruction_that_is_lacking_is_named_by_its_signal(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import os, signal\ndef kernel(problem, operands):\n    os.kill(os.getpid(), signal.SIGILL)\n"
    )
    with open_runner(f"{tmp_path}/mine.py:kernel") as runner, pytest.raises(EngineCrashed, match=r"SIGILL \(an instr"):
        runner.run(PROBLEM, make_normal(PROBLEM))


@emulated
@pytest.mark.parametrize(
    ("name", "core"), [("Nehalem", "Nehalem"), ("sandy bridge", "Sandybridge"), ("x86-64-v3", "Haswell")]
)
def test_bits_are_those_of_the_librarys_own_switch(name, core):
    """OpenBLAS, told natively which kernels to use, and asked what it took as the processor that it sees."""
    if core == "Haswell" and "avx2" not in FLAGS:
        pytest.skip("this processor has no AVX2")
    with (
        open_runner(f"numpy:cpu={name},threads=1") as there,
        open_runner(f"numpy:env.OPENBLAS_CORETYPE={core},threads=1") as here,
    ):
        assert there.identify().settings["core_type"] == core
        for text in (
            "linear x=4x64 w=8x64",
            "matmul x=33x100 w=100x17",
            "linear x=64x300 w=50x300",
            "linear x=1x999 w=9x999",
        ):
            problem = parse_problem_text(text)
            operands = make_normal(problem)
            assert np.array_equal(there.run(problem, operands), here.run(problem, operands)), text


@emulated
def test_features_are_those_of_the_model():
    with open_runner("numpy:cpu=Haswell") as new, open_runner("numpy:cpu=Nehalem") as old:
        assert all(name in new.identify().device for name in ("AVX2", "FMA3"))
        assert not any(name in old.identify().device for name in ("AVX", "FMA3"))
    with pytest.raises(EngineMissingError, match="does not emulate avx512f"):
        open_runner("numpy:cpu=x86-64-v4")


@emulated
@pytest.mark.needs("onnxruntime")
def test_pairs_of_codes_saturate_where_the_processor_has_no_vnni_and_a_setting_ends_it():
    """The report of quantised models that fail on older processors: right here or not, wrong on Haswell, and why."""
    text = "conv2d x=1x16x14x14 w=8x16x3x3 padding=1 dtype=uint8 weights=int8 out=uint8"
    found = samebits.compare(text, on=["onnxruntime:cpu=Haswell"], fix=True)
    (side,) = found.sides
    assert (side.verdict, side.cause) == ("wrong", "int8-saturation")
    fix = next(fix for fix in found.fixes if fix.verified)
    assert fix.setting == "x64quantprecision=on"
    # Another processor's time is no time.
    assert fix.time_before_s is None


@emulated
@pytest.mark.needs("onnxruntime")
def test_a_network_runs_there_and_is_judged(tmp_path):
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    w = onnx.numpy_helper.from_array(rng.standard_normal((8, 3, 3, 3)).astype(np.float32), "w")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1] * 4)],
        "net", [value("x", 1, [1, 3, 16, 16])], [value("y", 1, [1, 8, 16, 16])], [w],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(model, tmp_path / "net.onnx")
    found = samebits.compare(str(tmp_path / "net.onnx"), on=["onnxruntime", "onnxruntime:cpu=SandyBridge"])
    assert found.verdict == "rounding"
    assert "SandyBridge emulated" in found.sides[1].device


@emulated
def test_a_sweep_puts_processors_into_classes_and_finds_the_setting_that_joins_them():
    found = samebits.sweep("linear x=4x64 w=8x64", on="numpy:cpu={Nehalem,Haswell},threads=1", recipes=False, fix=True)
    assert "depend on the processor" in found.summary
    assert found.classes[0].cells[0] == {"cpu": ["Nehalem", "Nehalem"]}
    assert all(cell["cpu"][0] == cell["cpu"][-1] for one in found.classes for cell in one.cells)
    (fix,) = found.fixes
    assert fix.says == "env.OPENBLAS_CORETYPE=Nehalem"
    # Every core type that all of these processors can run makes them agree; it was tried.
    assert samebits.sweep("linear x=4x64 w=8x64", on=fix.engine).invariant


SHOWN = r"""
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static uint32_t bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
static float any(void) { uint32_t u = ((uint32_t)rand() << 9) ^ rand(); float f; memcpy(&f, &u, 4); return f; }
int main() {
  uint64_t near = 7, flushed = 7, sums = 7;
  for (int i = 0; i < 50000; i++) {
    float a = any(), b = any(), c = any();
    near = (near ^ bits(_mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(a < 0 ? -a : a))))) * 1099511628211u;
    _mm_setcsr(0x9fc0); /* flush to zero, and read subnormals as zero */
    float p = _mm_cvtss_f32(_mm_mul_ss(_mm_set_ss(a), _mm_set_ss(b)));
    _mm_setcsr(0x1f80);
    flushed = (flushed ^ (p != p ? 0 : bits(p))) * 1099511628211u;
    float s = _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
    long double x = (long double)a / 3.0L + b;
    double d = (double)x; uint64_t e; memcpy(&e, &d, 8);
    sums = (sums ^ (s != s ? 0 : bits(s)) ^ (d != d ? 0 : e)) * 1099511628211u;
  }
  printf("%llx %llx %llx\n", (unsigned long long)near, (unsigned long long)flushed, (unsigned long long)sums);
}
"""


@emulated
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.skipif("fma" not in FLAGS, reason="this processor has no FMA")
def test_what_emulation_shows_and_what_it_does_not(tmp_path):
    """Fused and x87 arithmetic and flushing are the real ones; approximate roots are the processor's own secret."""
    (tmp_path / "shown.c").write_text(SHOWN)
    subprocess.run(["gcc", "-O1", "-mavx2", "-mfma", "shown.c", "-o", "shown"], cwd=tmp_path, check=True)
    words = (emulated_cpu.find_emulator(), "-cpu", "Haswell")
    native, other = (
        subprocess.run([*by, "./shown"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
        for by in ((), words)
    )
    assert other[1:] == native[1:]
    assert other[0] != native[0]
