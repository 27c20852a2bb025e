"""Which random states count as unseeded, step by step."""

import pytest

from samebits.questions.runs.setting_differences import list_unseeded


@pytest.mark.parametrize(
    ("one", "other", "is_named"),
    [
        # Drawn from at every step, and never the same.
        ("abc", "xyz", True),
        # Seeded after the first step was seen, as behind an import.
        ("abc", "xbc", False),
        # Never drawn from: it differs in every process.
        ("aaa", "xxx", False),
        ("abc", "abc", False),
        # One run was shorter.
        ("abc", "xy", True),
    ],
)
def test_what_differs_all_the_time_and_moves_on_is_named(one, other, is_named):
    a, b = ({(step, "python"): state.encode() for step, state in enumerate(states)} for states in (one, other))
    assert [s.name for s in list_unseeded(a, b)] == (["python random state"] if is_named else [])
