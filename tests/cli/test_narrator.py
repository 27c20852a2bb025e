"""The narrator's line: it is gone for good once what it tells of has ended, and each is written whole."""

import io
import sys

from samebits.display.narrator import Narrator
from samebits.display.streams import say


def test_a_timer_that_fires_as_the_work_ends_shows_nothing(capfd):
    with Narrator() as narrator:
        narrator.hear("computing", 0.5)
    narrator._begin()
    narrator.hear("computing", 0.6)
    assert capfd.readouterr().err == ""


def test_a_line_is_written_with_its_end_at_once(monkeypatch):
    """An interrupt comes between two writes of an unbuffered stream, never within one."""
    written = []
    stream = io.StringIO()
    monkeypatch.setattr(stream, "write", written.append)
    monkeypatch.setattr(sys, "stderr", stream)
    say("at work ...")
    assert [text for text in written if text] == ["samebits: at work ...\n"]
