"""The text of a runner: read, printed, and refused with what is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engines.registry.runner_text import RunnerText, format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineMissingError, RunnerTextError


def test_settings_and_environment_are_told_apart():
    runner = parse_runner_text("torch:threads=2,env.OMP_NUM_THREADS=1,mkldnn=off")
    assert runner.name == "torch"
    assert runner.settings == {"threads": "2", "mkldnn": "off"}
    assert runner.environment == {"OMP_NUM_THREADS": "1"}


@pytest.mark.slow
@given(
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True),
        st.text(max_size=10).filter(lambda t: "\0" not in t and not t.endswith("\\")),
    )
)
def test_a_text_read_back_is_the_same(environment):
    runner = RunnerText("jax", {"precision": "high"}, environment)
    assert parse_runner_text(format_runner_text(runner)) == runner


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pytorch", "unknown engine 'pytorch'.*did you mean torch"),
        ("", "unknown engine ''"),
        ("torch:", "ends after the colon"),
        ("torch:threads", "no key=value"),
        ("torch:threads=1,threads=2", "given twice"),
        ("torch:thread=1", "no setting 'thread'.*did you mean threads"),
        ("torch:threads=0", "whole number"),
        ("torch:threads=1.5", "whole number"),
        ("torch:mkldnn=maybe", "on or off"),
        ("torch:env.A B=1", "no environment variable"),
        ("truth:fast=on", "no setting 'fast'"),
        ("truth:env.A=1", "takes no settings"),
    ],
)
def test_a_bad_text_is_refused_with_what_is_known(text, says):
    with pytest.raises(RunnerTextError, match=says):
        open_runner(text)


def test_an_engine_that_is_not_installed_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setattr("samebits.engines.registry.known_engines.EngineSpec.find_version", lambda self: None)
    with pytest.raises(EngineMissingError, match="jax is not installed; pip install jax"):
        open_runner("jax")
