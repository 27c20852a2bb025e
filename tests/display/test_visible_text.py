"""Nothing that a terminal obeys reaches it, from names, settings, logs or messages; marks are shown as they are."""

import io
import json
import os
import re
import subprocess
import sys

import msgspec
import pytest
from rich.console import Console

import samebits
from hand_made import WHOLE
from samebits.cli import main
from samebits.display import narrator as narrating
from samebits.display.visible_text import show_controls
from samebits.findings import Comparison, Evidence, Failure, Fix, Side, finding_from_json, json_from_finding
from samebits.questions.compare.comparison_report import show_comparison
from samebits.questions.doctor.inventory_report import show_inventory
from samebits.questions.doctor.inventory_schema import EngineState, Inventory, Variable
from samebits.questions.explain.explanation_report import show_explanation
from samebits.questions.profile.profile_picture import draw_picture
from samebits.questions.profile.profile_report import show_profile
from samebits.questions.profile.profile_schema import Profile

TEXT = "conv1d x=1x1x4 w=1x1x1"
# Colours, a cursor, a title, C1's own beginning of such, a return, a bell, letters from right to left, a line's end,
# half a pair of UTF-16, a tag.
HOSTILE = "\x1b[31m\x1b[2J\x1b]0;t\x07\x9b31m\r\b\x7f\u202e\u2066\u200b\u2028\u0085\udcff\U000e0041"
MARKS = "[bold]x[/bold] [/] [link=a]:smile:"
BAD = f"{MARKS}{HOSTILE}"
WORD = "[x]\x1b[31m\x9b2J\x07\x7f\u202e\udcff"
# What rich itself writes: colours, and nothing else.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def list_forbidden(text):
    return {c for c in text if not c.isprintable() and c != "\n"}


def make_bad_side(number):
    return Side(
        name=f"{BAD}{number}", engine="torch" if number else None, version=BAD, device=BAD, settings={BAD: BAD},
        verdict="wrong", says=BAD, where=BAD, evidence=[Evidence("statistic", BAD), Evidence("setting", BAD)],
        failure=Failure("crash", BAD) if number == 2 else None,
    )  # fmt: skip


def make_comparison():
    return Comparison(
        problem=TEXT, verdict="wrong", summary=BAD, data=BAD, outputs=4, reduction_length=1, settled={},
        sides=[make_bad_side(n) for n in range(3)], differences=[], evidence=[Evidence("statistic", BAD)],
        fixes=[Fix(BAD, BAD, BAD, False, None, BAD)], line=3, samebits_version="1",
    )  # fmt: skip


def make_profile():
    return Profile(
        problem=TEXT, engine=BAD, version=BAD, device=BAD, summary=BAD, recipe=BAD, calls=1, time_s=1.0,
        accumulator=BAD, operands={BAD: BAD}, subnormals=BAD, special_values={BAD: BAD},
        evidence=[Evidence("setting", BAD)], failure=BAD, samebits_version="1",
    )  # fmt: skip


def make_inventory():
    variable = Variable(BAD, BAD, "environment", BAD)
    return Inventory(
        samebits_version="1", python=BAD, platform=BAD, processor=BAD, features=[BAD], cores=1, memory_gib=1.0,
        packages={BAD: BAD}, engines=[EngineState(BAD, BAD, BAD, [BAD], [variable])], variables=[variable],
    )  # fmt: skip


REPORTS = [
    (show_comparison, make_comparison),
    (show_explanation, make_comparison),
    (show_profile, make_profile),
    (show_inventory, make_inventory),
]


@pytest.mark.parametrize(("show", "make"), REPORTS)
@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("width", [40, 100, 5000])
def test_reports_show_controls_and_marks_as_text(show, make, is_terminal, width):
    console = Console(
        file=io.StringIO(), width=width, highlight=False, force_terminal=is_terminal, color_system="standard"
    )
    show(make(), console)
    shown = console.file.getvalue()
    assert ("\x1b[" in shown) == is_terminal
    shown = COLOURS.sub("", shown)
    assert list_forbidden(shown) == set()
    if width == 5000:
        assert f"{MARKS}\\x1b[31m\\x1b[2J\\x1b]0;t\\x07\\x9b31m\\r\\x08\\x7f\\u202e\\u2066\\u200b\\u2028" in shown
        assert shown.count(MARKS) > 5


def test_a_heading_of_a_drawn_order_shows_the_marks_of_a_name():
    found = samebits.compare("conv1d x=1x4x3 w=2x4x1", ["emulate:direct", "truth"])
    recipes = ("direct order=tree:([0+1]*2@2)@float16", "direct order=k")
    named = [
        msgspec.structs.replace(side, name=f"[i]{n}[/i]", engine=None, recipe=recipe, replay=WHOLE)
        for n, (side, recipe) in enumerate(zip(found.sides, recipes, strict=True))
    ]
    console = Console(file=io.StringIO(), width=200, highlight=False)
    show_comparison(msgspec.structs.replace(found, sides=named), console)
    # Both orders draw the same tree, under one heading.
    assert "[i]0[/i], [i]1[/i]" in [line.strip() for line in console.file.getvalue().splitlines()]


def test_a_picture_holds_no_control_characters():
    assert list_forbidden(draw_picture(make_profile())) == set()


def test_json_holds_the_same_text_and_nothing_a_terminal_obeys():
    for make in (make_comparison, make_profile, make_inventory):
        found = make()
        text = json_from_finding(found)
        assert list_forbidden(text) == set()
        assert json.loads(text) == msgspec.to_builtins(found)
    valid = msgspec.structs.replace(
        make_comparison(), summary=BAD.replace("\udcff", ""), sides=[], fixes=[], evidence=[]
    )
    valid = msgspec.structs.replace(valid, data="")
    assert list_forbidden(json_from_finding(valid)) == set()
    assert finding_from_json(json_from_finding(valid), Comparison) == valid


@pytest.mark.parametrize(
    "arguments",
    [
        ["compare", f"conv1d {WORD}"],
        ["compare", TEXT, "--on", f"torch:{WORD}=1"],
        ["compare", TEXT, "--on", f"emulate:{WORD}"],
        ["explain", f"{WORD}.log"],
        ["explain", f"{WORD}.npz"],
        ["profile", WORD],
        [WORD],
        ["doctor", WORD],
    ],
)
def test_error_messages_show_controls(arguments, capfd):
    assert main(arguments) == 2
    error = capfd.readouterr().err
    assert list_forbidden(error) == set()
    assert "\\x1b" in error
    assert error.count("\n") == 1


def test_a_log_of_controls_is_explained_without_obeying_them(tmp_path, capfd):
    path = tmp_path / "some.log"
    names = f"[red]{HOSTILE}".replace("\u2028", "").replace("\u0085", "").replace("\r", "").replace("\udcff", "")
    path.write_text(f"Difference at 1: 1 vs 2\n%c = f32[1] convolution({names}) for {names} vs B\n", encoding="utf-8")
    assert main(["explain", str(path)]) == 1
    shown = capfd.readouterr().out
    assert list_forbidden(shown) == set()
    # Colours are no part of a log; other controls are shown as they stand.
    assert "[red]\\x1b]0;t" in shown


def test_bytes_that_are_no_utf_8_in_a_variable_do_not_end_doctor():
    environment = {**os.environb, b"OMP_NUM_THREADS": b"\xff\x1b[31m"}
    for flags in ([], ["--json"]):
        run = subprocess.run(
            [sys.executable, "-m", "samebits", "doctor", *flags], env=environment, capture_output=True, check=True
        )
        assert b"\x1b" not in run.stdout
        # A machine that is busy takes over a second, and is told so.
        assert run.stderr in (b"", b"samebits: starting ...\n")
        assert b"\\udcff" in run.stdout


def test_the_narrator_shows_controls_and_marks(monkeypatch):
    shown = io.StringIO()
    with narrating.Narrator() as narrator:
        narrator._console = Console(file=shown, force_terminal=True, width=300, color_system=None)
        narrator._begin()
        narrator.hear(f"running {BAD}", 0.5)
        narrator._status.refresh() if hasattr(narrator._status, "refresh") else narrator._status._live.refresh()
    said = shown.getvalue()
    assert MARKS in said
    assert "\\x1b[31m\\x1b[2J" in said
    assert not {"\x9b", "\u202e", "\x07", "\b"} & set(said)


def test_text_without_controls_stays_as_it_is():
    plain = "größer · ─┐ [0+1]*2@2 日本語"
    assert show_controls(plain) == plain
    assert show_controls("a\tb\nc\rd") == "a b c\\rd"
