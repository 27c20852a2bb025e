"""Who opens a runner closes it: runners that a caller passes in stay open, those opened from a text are closed."""

import pytest

import samebits
from injected_runners import InjectedRunner
from samebits.engines.registry import runners
from samebits.errors import SamebitsError
from samebits.questions.profile import profiling

TEXT = "conv1d x=1x2x9 w=2x2x3"


class Counted(InjectedRunner):
    """Counts how often it was closed."""

    def __init__(self, text="counted"):
        super().__init__(text)
        self.closed = 0

    def close(self):
        self.closed += 1


@pytest.fixture
def opened(monkeypatch):
    """Runners that samebits opens from a text, in place of engines."""
    made = []

    def open_runner(text, **_):
        if text == "broken":
            raise SamebitsError("cannot be opened")
        made.append(Counted(text))
        return made[-1]

    monkeypatch.setattr(runners, "open_runner", open_runner)
    monkeypatch.setattr(profiling, "open_runner", open_runner)
    return made


def test_compare_leaves_a_callers_runner_open(opened):
    own = Counted()
    samebits.compare(TEXT, [own, "engine"])
    assert own.closed == 0
    assert [runner.closed for runner in opened] == [1]


def test_compare_closes_what_it_opened_when_the_next_text_is_bad(opened):
    own = Counted()
    with pytest.raises(SamebitsError, match="cannot be opened"):
        samebits.compare(TEXT, [own, "engine", "broken"])
    assert own.closed == 0
    assert [runner.closed for runner in opened] == [1]


def test_compare_closes_what_it_opened_when_the_case_is_too_large(opened):
    with pytest.raises(SamebitsError):
        samebits.compare("conv2d x=1x3x99999x99999 w=64x3x3x3", ["engine"])
    assert all(runner.closed == 1 for runner in opened)


def test_profile_leaves_a_callers_runner_open(opened):
    own = Counted()
    assert samebits.profile(own, TEXT).engine == "counted"
    assert own.closed == 0
    assert opened == []
