"""The narrator's line: it is gone for good once what it tells of has ended, and each is written whole."""

import io
import sys

from samebits.display import narrator as narrator_module
from samebits.display.narrator import Narrator
from samebits.display.streams import say
from samebits.progress import FirstVerdict


def test_a_timer_that_fires_as_the_work_ends_shows_nothing(capfd):
    with Narrator() as narrator:
        narrator.hear("computing", 0.5)
    narrator._begin()
    narrator.hear("computing", 0.6)
    assert capfd.readouterr().err == ""


def test_a_first_verdict_is_said_once_and_only_of_what_takes_over_a_second(monkeypatch, capfd):
    monkeypatch.setattr(narrator_module, "LINE_EVERY_S", 3600.0)
    first = FirstVerdict.of("rounding", "None is wrong.", "More comes.")
    with Narrator() as narrator:
        narrator.hear(first, 1.0)
    assert capfd.readouterr().err == ""
    for is_late in (False, True):
        with Narrator() as narrator:
            if is_late:
                narrator._begin()
                capfd.readouterr()
            narrator.hear(first, 1.0)
            narrator.hear("probing", 0.1)
            if not is_late:
                narrator._begin()
            narrator._begin()
        said = capfd.readouterr().err.splitlines()
        assert said.count("samebits: so far rounding: None is wrong. More comes.") == 1


def test_a_line_is_written_with_its_end_at_once(monkeypatch):
    """An interrupt comes between two writes of an unbuffered stream, never within one."""
    written = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stream)
    say("at work ...")
    assert [text for text in written if text] == ["samebits: at work ...\n"]


def test_a_log_gets_a_line_now_and_then_and_the_newest(monkeypatch, capfd):
    """Not one per unit of a network; a report that came between two lines is said once the next is due."""
    monkeypatch.setattr(narrator_module, "LINE_EVERY_S", 3600.0)
    with Narrator() as narrator:
        narrator.hear("unit 1", 0.0)
        narrator._begin()
        for number in range(2, 100):
            narrator.hear(f"unit {number}", 0.0)
        narrator._begin()
        narrator._begin()
    assert capfd.readouterr().err.splitlines() == ["samebits: unit 1 ...", "samebits: unit 99 ..."]
