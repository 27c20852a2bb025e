"""Advice: all that is known for a cause, never said to have been tried; where nothing is known, the general one."""

import pytest

from samebits.findings import Fix
from samebits.findings.causes import CauseCode, find_cause
from samebits.findings.settings_advice import ADVICE, advise


def test_advice_for_a_cause_is_each_of_its_rows_with_its_source():
    (order,) = advise([CauseCode.SUMMATION_ORDER])
    assert order == Fix(
        engine="any",
        setting="samebits.conv2d: correctly rounded, so the order cannot matter",
        why="seldom a setting makes two libraries add in one order (compare --fix tries)",
        verified=False,
        verdict_after=None,
        source="docs/truth.md",
    )


def test_a_product_is_advised_of_what_multiplies_matrices_only():
    (order,) = advise([CauseCode.SUMMATION_ORDER], product=True)
    assert "samebits.linear" in order.setting
    assert "conv2d" not in order.setting
    settings = [f.setting for f in advise([CauseCode.REDUCED_PRECISION_OPERANDS], product=True)]
    assert any("matmul.allow_tf32" in s for s in settings)
    assert not any("cudnn" in s for s in settings)


@pytest.mark.parametrize("codes", [False, True], ids=["floats", "codes"])
@pytest.mark.parametrize("family", ["convolution", "product"])
@pytest.mark.parametrize("cause", CauseCode)
def test_all_rows_of_a_cause_are_given_or_its_own_general_advice(cause, family, codes):
    rows = [a for a in ADVICE if a.cause == cause and a.only in ("", family)]
    rows = [a for a in rows if a.of != ("floats" if codes else "codes")]
    if codes and "codes" in [a.of for a in rows]:
        rows = [a for a in rows if a.of == "codes"]
    row = find_cause(cause)
    general = [("any", row.advice, row.phrase, f"docs/causes.md#{cause}")]
    fixes = advise([cause], product=family == "product", codes=codes)
    assert [(f.engine, f.setting, f.why, f.source) for f in fixes] == (
        [(a.engine, a.setting, a.why, a.source) for a in rows] or general
    )
    assert {(f.verified, f.verdict_after) for f in fixes} == {(False, None)}


def test_kernels_of_codes_and_of_floats_are_each_told_what_concerns_them():
    codes = " ".join(f.setting for f in advise([CauseCode.PADDING], codes=True))
    floats = " ".join(f.setting for f in advise([CauseCode.PADDING]))
    assert "zero point" in codes
    assert "zero point" not in floats


@pytest.mark.parametrize(
    ("names", "engines"),
    [
        (["openvino"], {"openvino"}),
        (["onnxrt-runner-N0-03/01/24"], {"onnxruntime"}),
        (["trt-runner-N0"], {"tensorrt"}),
        (["torch:compile=on"], {"torch"}),
        # A name that says nothing of its engine leaves all that is known.
        (["mine"], {"torch", "openvino", "tensorrt", "onnxruntime"}),
        (["torch", "b"], {"torch", "openvino", "tensorrt", "onnxruntime"}),
        ([], {"torch", "openvino", "tensorrt", "onnxruntime"}),
    ],
)
def test_settings_that_the_deviating_engine_does_not_read_are_left_out(names, engines):
    fixes = advise([CauseCode.REDUCED_PRECISION_OPERANDS], names=names)
    assert {f.engine for f in fixes} >= engines
    if len(engines) == 1:
        assert {f.engine for f in fixes} == engines


def test_an_engine_without_a_known_setting_is_given_the_general_advice():
    (general,) = advise([CauseCode.REDUCED_PRECISION_OPERANDS], names=["numpy"])
    assert (general.engine, general.setting) == ("any", find_cause(CauseCode.REDUCED_PRECISION_OPERANDS).advice)


def test_some_causes_have_no_setting():
    assert {c for c in CauseCode if not any(a.cause == c for a in ADVICE)} == {
        CauseCode.REQUANTIZATION,
        CauseCode.HARNESS,
        CauseCode.RESULT_ROUNDING,
        CauseCode.QUANTIZED_OPERANDS,
        CauseCode.OTHER_KEYS,
        CauseCode.SOFTMAX,
        CauseCode.CANCELLATION,
    }


def test_a_cause_given_twice_is_advised_once_and_causes_keep_their_sequence():
    fft, harness = CauseCode.FFT, CauseCode.HARNESS
    assert advise([harness, fft, harness]) == [*advise([harness]), *advise([fft])]
    assert advise([]) == []


def test_no_row_stands_twice_and_every_row_says_its_source():
    assert len({(a.cause, a.engine, a.setting) for a in ADVICE}) == len(ADVICE)
    assert all(a.source and a.why for a in ADVICE)


@pytest.mark.parametrize(
    ("says", "there", "missing"),
    [
        ("rounds x and w to tf32 before it multiplies", "NVIDIA_TF32_OVERRIDE", "autocast"),
        ("computes in float16: rounds operands and results", "autocast", "TF32_OVERRIDE"),
        ("rounds x and w to bfloat16 before it multiplies", "INFERENCE_PRECISION_HINT", "compress_to_fp16"),
    ],
)
def test_settings_of_other_formats_are_left_out(says, there, missing):
    settings = " ".join(f.setting for f in advise([CauseCode.REDUCED_PRECISION_OPERANDS], says=says))
    assert there in settings
    assert missing not in settings
