"""Injected differences are attributed to their cause by replay; fault-free controls to their order, or to nothing."""

import json

import pytest

from samebits import compare
from samebits.cli import main
from samebits.findings import json_from_finding

# Left out of `make quick`.
pytestmark = pytest.mark.slow

LAYER = "conv2d x=1x16x12x12 w=16x16x3x3 padding=1 bias"
FAULT_FREE = "emulate:direct order=c,kh,kw"


@pytest.mark.parametrize(
    ("recipe", "verdict", "cause"),
    [
        ("direct x=tf32/toward_zero w=tf32/toward_zero", "downgrade", "reduced-precision-operands"),
        ("direct x=bfloat16 w=bfloat16 order=kh,kw,c", "downgrade", "reduced-precision-operands"),
        ("direct w=float16", "downgrade", "reduced-precision-operands"),
        ("direct acc=float16", "downgrade", "low-precision-accumulator"),
        ("direct order=chain@float16:c|kh,kw", "downgrade", "low-precision-accumulator"),
        ("direct order=kh,kw,c", "rounding", "summation-order"),
        ("direct order=c,kh,kw product=rounded", "rounding", "summation-order"),
        ("winograd(2)", "rounding", "winograd"),
        ("fft", "rounding", "fft"),
    ],
)
def test_an_injected_recipe_is_named_and_replayed(recipe, verdict, cause):
    found = compare(LAYER, [FAULT_FREE, f"emulate:{recipe}"])
    fault_free, injected = found.sides
    assert (injected.verdict, injected.cause) == (verdict, cause)
    assert injected.replay is not None
    assert injected.replay.matched == 1.0
    assert (fault_free.verdict, fault_free.cause) == ("rounding", "summation-order")
    assert found.cause == cause
    assert "emulate 2" in found.evidence[0].says
    assert json.loads(json_from_finding(found))["sides"][1]["replay"]["elements"] == injected.replay.elements


def test_equal_results_are_not_probed():
    found = compare(LAYER, [FAULT_FREE, "emulate:direct order=k"])
    assert found.cause is None
    assert all(side.recipe is None for side in found.sides)


def test_attribution_can_be_left_out():
    found = compare(LAYER, [FAULT_FREE, "emulate:direct acc=float16"], attributes=False)
    assert found.verdict == "undecided"
    assert all(side.recipe is None for side in found.sides)


@pytest.mark.needs("openvino", "onnxruntime")
def test_openvino_computing_in_bfloat16_is_proved_where_it_does():
    found = compare("conv2d x=1x16x14x14 w=32x16x3x3 padding=1", ["openvino", "onnxruntime"])
    openvino = found.sides[0]
    if openvino.verdict == "rounding":
        pytest.skip("this processor does not multiply bfloat16, so OpenVINO computes in float32")
    assert (openvino.verdict, openvino.cause) == ("downgrade", "reduced-precision-operands")
    assert openvino.replay is not None
    assert openvino.replay.matched == 1.0


@pytest.mark.needs("torch", "jax")
def test_the_two_orders_of_seed_1_are_drawn_side_by_side(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["compare", "examples/length8.npz", "--on", "torch", "--on", "jax"]) == 0
    shown = capsys.readouterr().out
    assert "cause summation-order: torch and jax add in different orders from the 2nd addition on" in shown
    drawing = next(line for line in shown.splitlines() if "5 products in order" in line and "0 1" in line)
    assert "y" in drawing


def test_profile_prints_the_order_the_map_and_the_proof(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "120")
    picture = tmp_path / "profile.svg"
    text = "emulate:direct order=c,kw;kw|c where=ow(0*8,1*4)"
    assert main(["profile", text, "conv1d x=1x8x14 w=16x8x3", "--svg", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "AAAAAAAABBBB" in shown
    assert "replayed 384 of 384" in shown.replace("\n", " ")
    assert picture.read_text().count("<rect") > 12


def test_profile_as_json_prints_the_document_and_nothing_else(capsys):
    assert main(["profile", "emulate:direct acc=float16", "conv1d x=1x8x14 w=16x8x3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accumulator"] == "float16"


@pytest.mark.parametrize("arguments", [["profile", "emulate:sideways"], ["profile", "torch", "conv9d x=1"]])
def test_bad_input_to_profile_gets_one_line(arguments, capsys):
    assert main(arguments) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("samebits: ")
