"""Every engine with an operator for attention computes it as the problem says: exact integers, and random numbers."""

from __future__ import annotations

import numpy as np
import pytest

from samebits.engines.registry.known_engines import ENGINES, list_installed_for_formula
from samebits.findings import is_agreement
from samebits.problems.attention import parse_attention
from samebits.questions.formula_comparing import compare_formula

_ENGINES = (
    "numpy",
    "torch",
    "torch:attention_as=math",
    "onnxruntime",
    "onnxruntime:attention_as=pattern",
    "openvino:INFERENCE_PRECISION_HINT=f32",
    "jax",
    "tensorflow",
)
_TEXTS = (
    "attention q=2x4x9x32 k=2x4x9x32",
    "attention q=2x4x5x32 k=2x2x9x32 causal",
    "attention q=2x4x5x32 k=2x2x9x32 causal=lower_right",
    "attention q=2x4x6x32 k=2x4x9x32 mask=bool scale=0.3",
    "attention q=2x4x6x32 k=2x4x9x32 mask=add",
    "attention q=1x4x16x32 k=1x4x16x32 causal mask=bool window=5",
    "attention q=1x8x1x32 k=1x1x70x32 v=1x1x70x24",
)


@pytest.mark.parametrize("engine", _ENGINES)
def test_an_engine_computes_what_the_text_says(engine: str) -> None:
    name = engine.partition(":")[0]
    if ENGINES[name].find_version() is None:
        pytest.skip(f"{name} is not installed")
    taken = 0
    for text in _TEXTS:
        side = compare_formula(parse_attention(text), engine, calls=1).sides[0]
        if side.failure is not None:
            assert side.failure.kind == "unsupported", side.failure.says
            continue
        taken += 1
        assert is_agreement(side.verdict), (text, side.says, side.where)
        assert side.exact_data is not None
        assert side.exact_data.differing == 0
        assert side.error is not None
        assert side.error.max_over_likely is not None
        assert side.error.max_over_likely < 1
    assert taken >= len(_TEXTS) - 1


@pytest.mark.needs("onnxruntime")
def test_group_queries_are_those_behind_a_cache() -> None:
    text = "attention q=1x8x3x32 k=1x2x20x32 causal=lower_right"
    side = compare_formula(parse_attention(text), "onnxruntime:attention_as=group_query", calls=1).sides[0]
    assert side.failure is None, side.failure
    assert is_agreement(side.verdict), side.says


@pytest.mark.needs("onnxruntime")
def test_a_fault_of_an_engine_is_named() -> None:
    """MultiHeadAttention of onnxruntime 1.32 with `unidirectional` hides no key from the last query."""
    text = "attention q=1x4x5x64 k=1x4x9x64 causal"
    side = compare_formula(parse_attention(text), "onnxruntime:attention_as=multi_head", calls=1).sides[0]
    if is_agreement(side.verdict):
        pytest.skip(f"onnxruntime {side.version} is right")
    assert (side.verdict, str(side.cause)) == ("wrong", "hidden-keys")
    assert side.says == "is causal but for the last query, which sees every key"
    # By hand: the last query's result is that of all keys.
    from samebits.engines.registry.runners import open_runner
    from samebits.problems.attention import make_normal_attention

    asked = parse_attention(text)
    operands = make_normal_attention(asked)
    runner = open_runner("onnxruntime:attention_as=multi_head")
    result = runner.run(asked, operands)
    runner.close()
    q, k, v = (operands[name].astype(np.float64) for name in ("q", "k", "v"))
    scores = q[:, :, -1:] @ k.swapaxes(-1, -2) / 8
    weights = np.exp(scores)
    expected = weights @ v / weights.sum(axis=-1, keepdims=True)
    assert np.abs(result[:, :, -1:] - expected).max() < 1e-5


def test_engines_without_an_operator_say_so() -> None:
    asked = parse_attention("attention q=1x1x2x8 k=1x1x2x8")
    sides = compare_formula(asked, ["emulate:direct", "truth"]).sides
    assert sides[0].failure is not None
    assert sides[0].failure.kind == "unsupported"
    assert sides[1].verdict == "identical"
    assert "numpy" in list_installed_for_formula(attention=True)
    assert "litert" not in list_installed_for_formula(attention=True)


@pytest.mark.parametrize("engine", ["torch", "openvino", "jax", "tensorflow"])
def test_a_cap_is_refused_where_there_is_none(engine: str) -> None:
    if ENGINES[engine].find_version() is None:
        pytest.skip(f"{engine} is not installed")
    asked = parse_attention("attention q=1x1x2x8 k=1x1x2x8 softcap=5")
    failure = compare_formula(asked, engine, calls=1).sides[0].failure
    assert failure is not None
    assert "no softcap" in failure.says


def test_functions_and_classes_of_a_file(tmp_path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import numpy as np\n"
        "def attend(problem, operands):\n"
        "    q, k, v = (operands[n] for n in 'qkv')\n"
        "    s = q @ k.swapaxes(-1, -2)\n"
        "    w = np.exp(s - s.max(-1, keepdims=True))\n"
        "    return w / w.sum(-1, keepdims=True) @ v\n"
        "class Products:\n"
        "    def run(self, problem, operands):\n"
        "        return operands['x']\n"
    )
    asked = parse_attention("attention q=1x2x9x16 k=1x2x9x16")
    found = compare_formula(asked, [f"{file}:attend", f"{file}:Products"], calls=1)
    assert (found.sides[0].verdict, str(found.sides[0].cause)) == ("wrong", "dropped-attribute")
    assert "no scale" in str(found.sides[0].says)
    assert found.sides[1].failure is not None
    assert "attend(problem, operands)" in found.sides[1].failure.says
