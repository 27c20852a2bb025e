"""A profile as one SVG file: each order as a labelled tree, and the map of outputs coloured and lettered by order."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from samebits.display.order_drawing import LETTERS, choose_plane, draw_order, map_orders
from samebits.display.visible_text import make_visible
from samebits.errors import ArgumentError
from samebits.problems.problem_text import parse_problem_text
from samebits.questions.profile.profile_schema import Profile
from samebits.regular_files import write_text

# Okabe and Ito's palette, which colour-blind readers can distinguish; letters say the same.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_FONT = "font-family='ui-monospace, Menlo, Consolas, monospace' font-size='14'"
_LINE, _MARGIN, _CELL = 20, 24, 14
_MOST_CELLS = 56
_MOST_ORDERS = 4
_WIDTH = 900


def write_picture(found: Profile, path: str | Path) -> None:
    """Writes the picture; raises ArgumentError where the file cannot be written."""
    try:
        write_text(path, draw_picture(found))
    except OSError as error:
        raise ArgumentError(f"{path} could not be written: {error.strerror}") from None


def draw_picture(found: Profile) -> str:
    """The SVG text: title, answer, orders, map."""
    found = make_visible(found)
    problem = parse_problem_text(found.problem)
    parts: list[str] = []
    y = _MARGIN + _LINE
    version = f" {found.version}" if found.version else ""
    for text, weight in ((found.problem, "bold"), (found.engine + version, "normal")):
        parts.append(_text(_MARGIN, y, text, weight=weight))
        y += _LINE
    for line in _wrap(found.summary, 100):
        parts.append(_text(_MARGIN, y, line))
        y += _LINE
    y += _LINE
    for i, use in enumerate(found.order_uses[:_MOST_ORDERS]):
        colour = COLOURS[i % len(COLOURS)]
        name = f"{LETTERS[i]}  " if len(found.order_uses) > 1 else ""
        parts.append(_text(_MARGIN, y, f"{name}{use.says}", colour=colour, weight="bold"))
        y += _LINE
        for line in draw_order(problem, use.order):
            parts.append(_text(_MARGIN + _LINE, y, line, colour=colour))
            y += _LINE
        parts.append(_text(_MARGIN + _LINE, y, f"used by {use.outputs:,} outputs"))
        y += 2 * _LINE
    ranks = map_orders(problem, found.where)
    if ranks is not None and ranks.max() > 0:
        plane, says = choose_plane(problem, ranks)
        parts.append(_text(_MARGIN, y, f"which output uses which order, {says}", weight="bold"))
        y += _LINE // 2
        step = max(-(-plane.shape[0] // _MOST_CELLS), -(-plane.shape[1] // _MOST_CELLS))
        for row in plane[::step]:
            for j, number in enumerate(row[::step]):
                parts.append(_cell(_MARGIN + j * _CELL, y, int(number)))
            y += _CELL
        if step > 1:
            y += _LINE
            parts.append(_text(_MARGIN, y, f"every {step}th row and column shown"))
    elif found.order_uses:
        parts.append(_text(_MARGIN, y, f"the same order for all {int(np.prod(problem.out_shape)):,} outputs"))
    height = y + _LINE + _MARGIN
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' viewBox='0 0 {_WIDTH} {height}'>\n"
        f"<rect width='100%' height='100%' fill='white'/>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: int, y: int, text: str, *, colour: str = "#222222", weight: str = "normal") -> str:
    shown = escape(text if len(text) <= 105 else text[:102] + "...")
    return f"<text x='{x}' y='{y}' {_FONT} font-weight='{weight}' fill='{colour}' xml:space='preserve'>{shown}</text>"


def _cell(x: int, y: int, number: int) -> str:
    letter = LETTERS[min(number, len(LETTERS) - 1)]
    return (
        f"<rect x='{x}' y='{y}' width='{_CELL - 1}' height='{_CELL - 1}' fill='{COLOURS[number % len(COLOURS)]}'/>"
        f"<text x='{x + 3}' y='{y + 10}' font-size='9' font-family='monospace' fill='white'>{letter}</text>"
    )


def _wrap(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
