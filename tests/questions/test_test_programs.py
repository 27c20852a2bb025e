"""Failures that test programs print value by value: as public reports show them, and as Polygraphy does."""

import numpy as np
import pytest

import samebits
from samebits.errors import LogError
from samebits.problems import format_problem
from samebits.questions.explain.logs import parse_log

# ROCm/MIOpen, issue 1257: its test prints the reference's value first.
MIOPEN = """\
./bin/test_conv2d --half --cmode conv --pmode default --group-count 1 --batch_size 8 --input_channels 16
FAILED: 0.144259
Iteration: 150
Forward convolution: ConvHipImplicitGemmForwardV4R5Xdlops
Input tensor: 8, 16, 28, 28
Weights tensor: 32, 16, 3, 3
Output tensor: 8, 32, 28, 28
Filter: conv2d, miopenConvolution, miopenPaddingDefault, {1, 1}, {1, 1}, {1, 1},
Max diff: 98
Mismatch at 0: -46 != -50
"""
# OpenMathLib/OpenBLAS, issues 24 and 2694; flame/blis, issue 817.
DTRMM = """\
 ******* FATAL ERROR - COMPUTED RESULT IS LESS THAN HALF ACCURATE *******
           EXPECTED RESULT   COMPUTED RESULT
       1     -0.462537         -0.172827
       2      0.466533         -0.412587
       3      0.186813          0.186813
      THESE ARE THE RESULTS FOR COLUMN   3
 ******* DTRMM  FAILED ON CALL NUMBER:
   1988: DTRMM ('R','U','T','U',  7,  3, 1.0, A,  4, B,  8)        .
"""
SGEMM = """\
 ******* FATAL ERROR - COMPUTED RESULT IS LESS THAN HALF ACCURATE *******
           EXPECTED RESULT   COMPUTED RESULT
       1      0.156895          0.156895
       2      0.344913          0.172457
       3     -0.801234         -0.400617
       4      0.229741          0.114871
 ******* SGEMM  FAILED ON CALL NUMBER:
   3568: SGEMM ('N','N',  4,  2,  7, 1.0, A,  5, B,  8, 0.0, C,  5)        .
"""
ZGEMM = """\
 ******* FATAL ERROR - COMPUTED RESULT IS LESS THAN HALF ACCURATE *******
                       EXPECTED RESULT                    COMPUTED RESULT
       1  (    .502944E-01,   -.523875    )  (   -.565987E-01,   -.313672E-01)
       2  (    .317743    ,   -.226763    )  (   -.189201E-01,    .739361E-01)
      THESE ARE THE RESULTS FOR COLUMN   1
 ******* ZGEMM  FAILED ON CALL NUMBER:
   6890: ZGEMM ('N','N',  2,  2,  1,( 1.0,  .0), A,  3, B,  2,( 1.0,  .0), C,  3).
"""
# TensorFlow's test::ExpectClose.
TENSORFLOW = """\
tensorflow/core/framework/tensor_testutil.cc:294: Failure
Value of: IsClose(Tx[i], Ty[i], typed_atol, typed_rtol)
  Actual: false
Expected: true
i = 4 Tx[i] = 1.5 Ty[i] = 0.75
i = 5 Tx[i] = -2.5 Ty[i] = -1.25
i = 7 Tx[i] = 0.625 Ty[i] = 0.3125
"""
# ROCm/composable_kernel, pull request 614.
KERNEL = """\
Error: Incorrect results!        out[28] != ref[28]: 0 != -0.002017975
Error: Incorrect results!        out[31] != ref[31]: 0 != 1.904297
Error: Incorrect results!        out[210] != ref[210]: 0 != 0.6728516
   max err: 1.904297
"""
# Cytnx-dev/Cytnx, issue 269.
EQUALITY = """\
linalg_test.cpp:11: Failure
Expected equality of these values:
  vnm_S[i]
    Which is: 11.623936653137207
  (double)(svd_Sans.at({0, i}).real())
    Which is: 1.4142130600585274
"""


def test_miopens_test_gives_its_convolution_its_solver_and_the_two_values():
    (found,) = parse_log(MIOPEN.splitlines())
    assert found.problem is not None
    assert found.metrics is not None
    assert format_problem(found.problem) == "conv2d x=8x16x28x28 w=32x16x3x3 padding=1 dtype=float16"
    assert found.names == ("ConvHipImplicitGemmForwardV4R5Xdlops", "the CPU's reference")
    assert found.pairs == ((0, -50.0, -46.0),)
    assert (found.metrics.rms_share, found.metrics.max_abs) == (0.144259, 98)


@pytest.mark.parametrize(("said", "direction"), [("Backward data", "grad_input"), ("Backward weights", "grad_weight")])
def test_miopens_direction_is_read(said, direction):
    (found,) = parse_log(MIOPEN.replace("Forward", said, 1).splitlines())
    assert found.problem is not None
    assert found.problem.direction == direction


def test_a_convolution_whose_output_is_another_is_not_taken():
    (found,) = parse_log(MIOPEN.replace("{1, 1}, {1, 1}, {1, 1}", "{0, 0}, {1, 1}, {1, 1}").splitlines())
    assert found.problem is None


def test_an_error_of_a_seventh_of_the_largest_value_is_no_rounding(tmp_path):
    (tmp_path / "log").write_text(MIOPEN)
    explained = samebits.explain(tmp_path / "log")
    assert [side.verdict for side in explained.sides] == ["wrong", "undecided"]


def test_blas_testers_rows_routine_and_column():
    (found,) = parse_log(DTRMM.splitlines())
    assert found.names == ("DTRMM", "the tester's reference")
    assert found.pairs == ((0, -0.172827, -0.462537), (1, -0.412587, 0.466533), (2, 0.186813, 0.186813))
    assert found.problem is None
    (complex_,) = parse_log(ZGEMM.splitlines())
    assert complex_.pairs[:2] == ((0, -0.0565987, 0.0502944), (1, -0.0313672, -0.523875))
    assert len(complex_.pairs) == 4


def test_what_is_less_than_half_accurate_is_wrong_and_where_and_how_is_said(tmp_path):
    (tmp_path / "log").write_text(SGEMM)
    explained = samebits.explain(tmp_path / "log")
    assert explained.problem == "matmul x=4x7 w=7x2 dtype=float32"
    assert [side.verdict for side in explained.sides] == ["wrong", "undecided"]
    assert "all 3 differing values of SGEMM are 0.5 times" in explained.summary
    assert "from element 1 on of the 4 printed" in explained.summary


def test_two_failures_of_a_blas_log_are_two():
    first, second = parse_log((DTRMM + "\n" + SGEMM).splitlines())
    assert (first.names[0], second.names[0]) == ("DTRMM", "SGEMM")
    assert (len(first.pairs), len(second.pairs)) == (3, 4)


def test_tensorflows_elements_are_pairs_by_their_index(tmp_path):
    (tmp_path / "log").write_text(TENSORFLOW)
    (found,) = parse_log(TENSORFLOW.splitlines())
    assert found.pairs == ((4, 1.5, 0.75), (5, -2.5, -1.25), (7, 0.625, 0.3125))
    explained = samebits.explain(tmp_path / "log")
    # Which of the two is the expected one, the test's author alone knows.
    assert explained.verdict == "undecided"
    assert "all 3 printed values of x are 2 times y's" in explained.summary.lower().replace("  ", " ")


def test_indices_that_begin_afresh_are_another_result():
    assert [len(m.pairs) for m in parse_log((TENSORFLOW * 2).splitlines())] == [3, 3]


def test_a_kernel_that_returns_zeros_where_its_reference_has_numbers_is_wrong(tmp_path):
    (tmp_path / "log").write_text(KERNEL)
    explained = samebits.explain(tmp_path / "log")
    assert [side.verdict for side in explained.sides] == ["wrong", "undecided"]
    assert "zero" in explained.summary


def test_values_that_differ_anyhow_from_a_reference_are_not_called_wrong(tmp_path):
    (tmp_path / "log").write_text(KERNEL.replace(": 0 !=", ": 0.5 !=", 1).replace(": 0 !=", ": 0.25 !="))
    assert samebits.explain(tmp_path / "log").verdict == "undecided"


def test_googletests_equality():
    (found,) = parse_log(EQUALITY.splitlines())
    assert found.pairs == ((0, 11.623936653137207, 1.4142130600585274),)


def test_benchdnn_of_what_is_no_product_is_read_by_its_values(tmp_path):
    lines = [
        f"[{i:4}][DST][0:0:0:{i}] exp_f32:    {v} exp:    {v} got:           0 diff:{abs(v)} rdiff:       1"
        for i, v in enumerate((0.841345, 1.9545, -0.158655))
    ]
    line = "--eltwise --dt=f32 --tag=nchw --alg=gelu_erf 2x16x4x4"
    lines.append(f"0:FAILED (errors:512 total:512) __REPRO: {line}")
    (tmp_path / "log").write_text("\n".join(lines))
    explained = samebits.explain(tmp_path / "log")
    assert [side.verdict for side in explained.sides] == ["wrong", "undecided"]
    assert "zero" in explained.summary
    assert "option" not in explained.summary


def test_every_output_that_optimum_lists_is_named(tmp_path):
    names = ["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value", "last_hidden_state"]
    head = (
        "The maximum absolute difference between the output of the reference model and the ONNX exported model is not"
    )
    lines = [
        f"{head} within the set tolerance 0.0001:",
        *(f"- {name}: max diff = 0.0{n + 1}" for n, name in enumerate(names)),
    ]
    (tmp_path / "log").write_text("\n".join(lines))
    first = samebits.explain(tmp_path / "log")
    for found, name in zip([first, *first.more], names, strict=True):
        assert found.summary.startswith(f"Output {name}: ")


RNG = np.random.default_rng(4)
VALUES = RNG.standard_normal((2, 6)).astype(np.float32)
LAST = np.arange(12).reshape(2, 6) >= 9


def _print_polygraphy(first: np.ndarray, second: np.ndarray, *, older: bool) -> str:
    """What Polygraphy 0.49 prints of one output at its most verbose, or what versions before 0.40 do."""
    shape = f"shape={first.shape}"
    lines = [
        "[I] Accuracy Comparison | trt-runner-N0 vs. onnxrt-runner-N0",
        f"[I]     simple | Comparing Output: 'out' (dtype=float32, {shape}) with 'out' (dtype=float32, {shape})",
        "[I]         Tolerance: [abs=1e-05, rel=1e-05] | Checking elemwise error",
    ]
    for name, array in (("trt-runner-N0", first), ("onnxrt-runner-N0", second)):
        printed = str(array).splitlines() if older else np.array_repr(array)[6:].rsplit(", dtype", 1)[0]
        printed = "\n".join(f"                {line}" for line in str(array).splitlines())
        if older:
            lines += [
                f"[I]         {name}: out | Stats: mean=0, var=1, min=-1 at (0, 0), max=1 at (0, 1)",
                "[I]             ---- Values ----",
            ]
        else:
            lines.append(f"[S]         {name}     | Output: out (dtype=float32, {shape}):")
        lines.append(printed)
    away = np.abs(first - second)
    lines += [
        "[I]         Error Metrics: out",
        f"[I]             Absolute Difference | Stats: mean={away.mean():g}, min=0 at (0,), max={away.max():g} at (1,)",
        "[I]                 ---- Values ----",
        *(f"                    {line}" for line in str(away).splitlines()),
        "[I]             Relative Difference | Stats: mean=0.5, min=0 at (0, 0), max=1 at (1, 2)",
        "[E]         FAILED | Output: 'out' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda a: a.astype(np.float16).astype(np.float32), "are numbers of float16"),
        (lambda a: 2 * a, "are 2 times"),
        (lambda a: np.where(LAST, 2 * a, a), "are 2 times onnxrt-runner-N0's (from element 9 on of the 12 printed)"),
        (lambda a: np.where(LAST, 0 * a, a), "(from element 9 on of the 12 printed)"),
        (lambda a: np.minimum(a, np.float32(0.25)), "are 0.25, where onnxrt-runner-N0 has larger ones: cut off there"),
    ],
)
def test_what_polygraphys_printed_values_show(tmp_path, change, says, older):
    (tmp_path / "log").write_text(_print_polygraphy(change(VALUES), VALUES, older=older))
    explained = samebits.explain(tmp_path / "log")
    assert explained.summary.startswith("Output out: ")
    assert says in explained.summary
    assert not explained.more


def test_polygraphys_values_with_dots_have_their_places():
    first = np.arange(1, 4001, dtype=np.float32).reshape(2, 2000)
    (found,) = parse_log(_print_polygraphy(2 * first, first, older=False).splitlines())
    assert [index for index, _, _ in found.pairs] == [0, 1, 2, 1997, 1998, 1999, 2000, 2001, 2002, 3997, 3998, 3999]
    assert all(second == index + 1 for index, _, second in found.pairs)


@pytest.mark.parametrize(
    "broken",
    ["[[0.1 0.2", "[[[[[[[[[[[1]]]]]]]]]]]", "[0.1 0.2] 0.3]", "nothing", "[[0.1 ... ... 0.2]]", "[0.1 [0.2 0.3]]"],
)
def test_a_printed_array_that_is_none_costs_nothing(broken):
    lines = _print_polygraphy(2 * VALUES, VALUES, older=False).splitlines()
    at = next(n for n, line in enumerate(lines) if "| Output: " in line)
    (found,) = parse_log([*lines[: at + 1], broken, *lines[at + 3 :]])
    assert found.metrics is not None
    assert found.metrics.max_abs is not None
    assert found.pairs == ()


@pytest.mark.parametrize("text", ["Mismatch at : 1 != 2", "i = x Tx[i] = 1 Ty[i] = 2", "Which is: 4", "FAILED: 3"])
def test_near_misses_are_no_mismatch(text):
    with pytest.raises(LogError):
        parse_log([text])
