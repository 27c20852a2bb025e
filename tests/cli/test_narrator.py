"""The narrator's line: it is gone for good once what it tells of has ended."""

from samebits.cli.narrator import Narrator


def test_a_timer_that_fires_as_the_work_ends_shows_nothing(capfd):
    with Narrator() as narrator:
        narrator.hear("computing", 0.5)
    narrator._begin()
    narrator.hear("computing", 0.6)
    assert capfd.readouterr().err == ""
