"""What a large problem takes is said beforehand, once, and of small ones nothing."""

import re

import pytest

from samebits.cli import main
from samebits.judging.comparing_cost import announce_cost, count_needed_bytes
from samebits.problems import parse_problem_text
from samebits.progress import Announcement

UNITS = {"seconds": 1, "minutes": 60, "hours": 3600, "days": 86400}


def hear(text, references=2, emulations=0):
    heard = []
    announce_cost(parse_problem_text(text), references, emulations, lambda what, share: heard.append(what))
    assert all(isinstance(what, Announcement) for what in heard)
    return heard


def seconds(text, **how):
    (said,) = hear(text, **how)
    number, unit = re.search(r"about ([\d.]+) (\w+) on", said).groups()
    return float(number) * UNITS[unit]


@pytest.mark.parametrize("text", ["conv1d x=1x1x4 w=1x1x1", "conv2d x=8x64x56x56 w=64x64x3x3 padding=1"])
def test_of_what_is_done_in_a_moment_nothing_is_said(text):
    assert hear(text) == []


def test_a_large_problem_is_announced_with_products_time_and_memory():
    (said,) = hear("conv2d x=512x512x28x28 w=512x512x3x3 padding=1")
    # 512 items of 512 channels, 784 places each, 9 * 512 products: 9.47e11 (the padding's are counted too).
    assert "9.5e+11 products" in said
    assert "GiB" in said
    assert "the time of engines comes on top" in said


def test_more_work_is_said_to_take_longer():
    wide = "conv2d x=512x512x28x28 w=512x512x3x3 padding=1"
    assert seconds(wide + " dtype=float64") > 20 * seconds(wide)
    assert seconds(wide, emulations=4) > seconds(wide)
    assert seconds("conv2d x=5120x512x28x28 w=512x512x3x3 padding=1") > 5 * seconds(wide)


@pytest.mark.parametrize(("dtype", "width"), [("float32", 4), ("float64", 8), ("float16", 4)])
def test_memory_counts_every_array_and_its_copies(dtype, width):
    problem = parse_problem_text(f"conv1d x=1x1x10 w=1x1x3 dtype={dtype}")
    # x, w: 13 numbers, twelve copies; of 8 outputs, as float64: truth, bound and magnitudes on two sets of operands,
    # four for distances, and two results of each of two sides.
    assert count_needed_bytes(problem, 2) == 13 * width * 12 + 8 * 8 * (3 * 2 + 4 + 2 * 2)


def test_the_command_says_it_at_once(capsys, monkeypatch):
    monkeypatch.setattr("samebits.judging.comparing_cost._WORTH_SAYING_S", 0.0)
    assert main(["compare", "conv1d x=1x1x4 w=1x1x1", "--on", "truth"]) == 0
    assert capsys.readouterr().err.startswith("samebits: a large problem: 4 products")
