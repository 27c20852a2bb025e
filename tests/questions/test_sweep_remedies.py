"""What a sweep tries with `--fix`, by a stand-in for the engine that says which texts have the same bits."""

from types import SimpleNamespace

import pytest

from samebits.problems import parse_problem_text
from samebits.questions.sweep.remedies import Swept, find_remedies

PROBLEM = parse_problem_text("linear x=4x64 w=8x64")


def try_all(text, at_point, helps=lambda _: False):
    asked = []

    def ask(other):
        asked.append(other)
        return SimpleNamespace(failures=[], invariant=helps(other), version="1")

    fixes, count = find_remedies(Swept(text, at_point), PROBLEM, {}, lambda text, _: ask(text))
    assert count == len(asked)
    return fixes, asked


@pytest.mark.parametrize("first", ["Nehalem", "native"])
def test_over_processors_instruction_sets_are_tried_together_and_alone_where_that_helps(first):
    text = f"torch:cpu={{{first},Haswell}},threads=1"
    fixes, asked = try_all(text, f"torch:cpu={first},threads=1")
    assert not fixes
    # The ranges stand in every text, and no other engine is asked.
    assert all(f"cpu={{{first},Haswell}}" in one and one.startswith("torch:") for one in asked)
    together = [one for one in asked if one.count("env.") > 1]
    assert [
        sorted(part.partition("=")[0] for part in one.split(",") if part.startswith("env.")) for one in together
    ] == [["env.ATEN_CPU_CAPABILITY", "env.MKL_CBWR", "env.ONEDNN_MAX_CPU_ISA"]]
    assert "ONEDNN_MAX_CPU_ISA=SSE41" in together[0]
    assert "ATEN_CPU_CAPABILITY=default" in together[0]
    # Together they did not help: alone they are not asked.
    assert not any("MAX_CPU_ISA" in one for one in asked if one not in together)
    fixes, asked = try_all(text, f"torch:cpu={first},threads=1", lambda one: "MKL_CBWR" in one)
    assert [fix.says for fix in fixes] == ["env.MKL_CBWR=COMPATIBLE"]
    assert asked[0].count("env.") == 3
    fixes, _ = try_all(text, f"torch:cpu={first},threads=1", lambda one: one.count("env.") == 3)
    assert "MKL_CBWR" in fixes[0].says
    assert "ATEN_CPU_CAPABILITY" in fixes[0].says


def test_a_setting_with_a_range_is_not_tried_itself_and_no_engine_without_it():
    _, asked = try_all("numpy:threads={1,2}", "numpy:threads=1")
    assert asked
    assert all("threads={1,2}" in one and one.startswith("numpy:") for one in asked)


def test_over_sizes_other_engines_are_tried_last():
    _, asked = try_all("numpy", "numpy")
    names = [one.partition(":")[0] for one in asked]
    assert names[0] == "numpy"
    assert names == sorted(names, key=lambda name: name != "numpy")


@pytest.mark.parametrize("failing", [0, 1])
def test_what_makes_more_points_fail_is_no_remedy(failing):
    """The bits are the same wherever there is a result, and one point has none."""
    found = SimpleNamespace(failures=["a point"], invariant=True, version="1")
    fixes, _ = find_remedies(Swept("torch:threads={1,2}", "torch:threads=1"), PROBLEM, {}, lambda *_: found, failing)
    assert bool(fixes) == (failing == 1)
