"""Failures of verifiers: as the tools print them here, and as public reports show them."""

import io
import subprocess
import sys
import types

import numpy as np
import pytest

import samebits
from samebits.errors import LogError
from samebits.problems import format_problem
from samebits.questions.explain.logs import parse_log, read_log

# ROCm/MIOpen, issue 1566; pull request 422; issue 55.
MIOPEN = """\
$ ./bin/MIOpenDriver conv -c 1 -H 24 -W 24 -y 3 -x 3 -k 1 -n 1 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -F 1 -V 1 -i 1 -t 1
    MIOpen Forward Conv. Algorithm: 1, Solution: 11/ConvOclDirectFwd
    Forward Convolution FAILED: 0.501405 > 1.5e-06
"""
WINOGRAD = """\
./bin/MIOpenDriver conv -n 2 -c 256 -H 64 -W 64 -k 512 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 2 -V 1
MIOpen Backward Data Conv. Algorithm: 3, Solution: 71/ConvMPBidirectWinograd<6-3>
Backward Convolution Data Failed: 1.0084e-06 > 1e-06
"""
ALL_THREE = """\
./bin/MIOpenDriver conv -m conv -W 14 -H 14 -c 6 -k 4 -x 1 -y 1 -p 0 -q 0 -u 1 -v 1 -F 0
Forward Convolution Failed: 0.625378
Backward Convolution Data Failed: 0.304246
Backward Convolution Weights Failed: 0.860219
"""
# uxlfoundation/oneDNN, issue 958; the wording since version 3 below.
BENCHDNN = """\
[   0][DST][0,0,0,0,0,0] fp:         512 fp0:         512 dt:        1024 diff:     512 rdiff:       1
[   5][DST][0,0,0,0,1,2] fp:          88 fp0:          88 dt:        1624 diff:    1536 rdiff: 17.4545
@@@ [DST] final: diff: err:9, l0(``18.1304``)
0:FAILED (errors:9 total:9) __REPRO: --conv mb1ic1ih4oc1oh3kh2ph0
"""
NEWER = """\
[   5][DST][0:0:1:2] exp_f32:          88 exp:          88 got:        1624 diff:    1536 rdiff: 17.4545
0:FAILED (errors:1 total:9) (3 ms) __REPRO: --conv mb1ic1ih4oc1oh3kh2ph0
"""
OPTIMUM = """\
The maximum absolute difference between the output of the reference model and the ONNX exported model is not within the\
 set tolerance 1e-05:
- last_hidden_state: max diff = 0.00012
- pooler_output: max diff = 3.4e-05
"""
GOOGLETEST = """\
The difference between f_expected[i] and f_actual[i] is 0.5, which exceeds threshold, where
f_expected[i] evaluates to 14.25,
f_actual[i] evaluates to 14.75, and
"""


def test_miopens_failure_has_its_command_its_solver_and_its_direction():
    (found,) = parse_log(MIOPEN.splitlines())
    assert found.names == ("ConvOclDirectFwd", "the CPU's reference")
    assert (found.metrics.rms_share, found.metrics.rtol) == (0.501405, 1.5e-06)
    assert format_problem(found.problem) == "conv2d x=1x1x24x24 w=1x1x3x3 padding=1 dtype=float32"
    directions = [m.problem.direction for m in parse_log(ALL_THREE.splitlines())]
    assert directions == ["forward", "grad_input", "grad_weight"]
    assert parse_log(WINOGRAD.splitlines())[0].problem.direction == "grad_input"


def explain(tmp_path, text):
    file = tmp_path / "a.log"
    file.write_text(text)
    return samebits.explain(file)


def test_a_difference_of_half_of_the_largest_value_is_no_rounding(tmp_path):
    found = explain(tmp_path, MIOPEN)
    assert found.verdict == "wrong"
    assert (found.sides[0].verdict, found.sides[0].certainty) == ("wrong", "statistics")
    assert found.sides[1].verdict == "undecided"


def test_a_difference_as_large_as_rounding_is_not_called_wrong(tmp_path):
    found = explain(tmp_path, WINOGRAD)
    assert found.verdict == "undecided"


@pytest.mark.parametrize("text", [BENCHDNN, NEWER])
def test_exact_integers_that_come_out_otherwise_are_a_fault(tmp_path, text):
    found = explain(tmp_path, text)
    assert (found.verdict, found.sides[0].name, found.sides[0].verdict) == ("wrong", "oneDNN", "wrong")
    assert found.problem == "conv2d x=1x1x4x4 w=1x1x2x2 bias dtype=float32"
    assert "for 88" in found.sides[0].evidence[0].says or "for 512" in found.sides[0].evidence[0].says


def test_integers_within_one_rounding_of_a_narrow_result_are_no_fault(tmp_path):
    text = NEWER.replace("88 got:        1624", "257 got:         256").replace("exp_f32:          88", "exp_f32: 257")
    found = explain(tmp_path, text.replace("--conv", "--conv --dt=bf16"))
    assert found.verdict == "undecided"


def test_optimum_names_its_outputs(tmp_path):
    found = parse_log(OPTIMUM.splitlines())
    assert [(m.facts["output"], m.metrics.max_abs, m.metrics.atol) for m in found] == [
        ("last_hidden_state", 0.00012, 1e-05),
        ("pooler_output", 3.4e-05, 1e-05),
    ]
    assert explain(tmp_path, OPTIMUM).verdict == "undecided"


def test_googletests_near_gives_values():
    (found,) = parse_log(GOOGLETEST.splitlines())
    assert (found.metrics.max_abs, found.metrics.largest_value, found.metrics.mismatched) == (0.5, 14.75, 1)


@pytest.mark.parametrize("check", ["assert_array_max_ulp", "assert_array_almost_equal_nulp"])
def test_numpys_ulp_asserts_are_read_as_numpy_prints_them(check):
    a = np.ones(4, np.float32)
    with pytest.raises(AssertionError) as raised:
        getattr(np.testing, check)(a, a + 2 * np.spacing(a))
    (found,) = parse_log(str(raised.value).splitlines())
    assert found.metrics.max_ulp == 2


@pytest.mark.needs("tensorflow")
def test_tensorflows_assert_all_close_is_read_as_it_prints():
    program = "import tensorflow as tf; tf.test.TestCase().assertAllClose([1.0, 2.0, 3.0], [1.0, 2.5, 3.25])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    (found,) = parse_log(done.stderr.splitlines())
    assert (found.metrics.max_abs, found.metrics.largest_value) == (0.5, 3.25)


def test_a_log_comes_from_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(MIOPEN.encode())))
    assert samebits.explain("-").verdict == "wrong"
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"nothing")))
    with pytest.raises(LogError, match="standard input tells of no mismatch"):
        samebits.explain("-")


def test_a_web_page_is_read_as_it_shows(tmp_path):
    """As documentation built with coloured code prints logs: every line in elements of its own, signs escaped."""
    lines = [
        f'<span class="line"><span>{line}</span></span>'
        for line in WINOGRAD.replace("<6-3>", "&lt;6-3&gt;").splitlines()
    ]
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><html><script>Difference at 0: 1 vs 2</script><pre>" + "\n".join(lines) + "</pre></html>"
    )
    (found,) = read_log(page)
    assert found.names[0] == "ConvMPBidirectWinograd<6-3>"
    assert found.problem is not None


def test_a_plain_log_with_angles_is_no_page(tmp_path):
    file = tmp_path / "a.log"
    file.write_text(MIOPEN.replace("$ ", "<undefined> "))
    assert len(read_log(file)) == 1
