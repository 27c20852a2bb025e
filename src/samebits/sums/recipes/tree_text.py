"""Trees as text, short where they repeat themselves: `parse_tree(format_tree(t)) == t`.

    0 5 9          terms; neighbours are added left to right
    0:144  0:144:9 terms 0, 1, ... 143; every ninth of them
    ( ... )        a sum of its own        (...)@float16   stored in another format
    { ... }        terms of one multi-term addition
    [ ... ]*4@9    the items four times, every term 9 higher than the time before; also (...)*4@9, {...}*4@9

Items are separated by `+`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.errors import RecipeError
from samebits.numbers.format import FORMATS
from samebits.numbers.whole_number import is_whole_number
from samebits.sums.recipes.tree import MOST_ITEMS, Chain, Fused, Item, map_terms

_DEEPEST = 200
_TOKEN = re.compile(r"[0-9]+|[()\[\]{}+:*@]|[a-z][a-z0-9_]*")


def format_tree(tree: Item) -> str:
    """The text of a tree."""
    if isinstance(tree, Chain) and not tree.format:
        return _format_items(tree.items)
    return _format_items((tree,))


def _format_items(items: Sequence[Item]) -> str:
    return "+".join(_Piece.text(p) for p in _compress([_Piece(i, 1, 0) for i in items]))


@dataclass(frozen=True)
class _Piece:
    """An item, or a run of pieces, `count` times, every time `shift` higher."""

    body: Item | tuple[_Piece, ...]
    count: int
    shift: int

    def text(self) -> str:
        if isinstance(self.body, int):
            if self.count == 1:
                return str(self.body)
            stop = self.body + (self.count - 1) * self.shift + 1
            return f"{self.body}:{stop}" + (f":{self.shift}" if self.shift != 1 else "")
        if isinstance(self.body, tuple):
            inner = "[" + "+".join(p.text() for p in self.body) + "]"
        elif isinstance(self.body, Fused):
            inner = "{" + _format_items(self.body.terms) + "}"
        else:
            inner = "(" + _format_items(self.body.items) + ")" + (f"@{self.body.format}" if self.body.format else "")
        return inner if self.count == 1 else f"{inner}*{self.count}@{self.shift}"


def _shifted(piece: _Piece, by: int) -> _Piece:
    if isinstance(piece.body, tuple):
        return _Piece(tuple(_shifted(p, by) for p in piece.body), piece.count, piece.shift)
    return _Piece(map_terms(piece.body, lambda t: t + by), piece.count, piece.shift)


def _first(piece: _Piece) -> int:
    body = piece.body
    while not isinstance(body, int):
        body = body[0].body if isinstance(body, tuple) else body.items[0] if isinstance(body, Chain) else body.terms[0]
    return body


def _compress(pieces: list[_Piece]) -> list[_Piece]:
    """Runs of equal neighbours become one piece, then runs of runs, until nothing changes."""
    pieces = _join_runs(pieces, 1)
    for _ in range(4):
        before = len(pieces)
        for period in (1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 25, 32, 49):
            if 2 * period <= len(pieces):
                pieces = _join_runs(pieces, period)
        if len(pieces) == before:
            break
    return pieces


def _join_runs(pieces: list[_Piece], period: int) -> list[_Piece]:
    joined: list[_Piece] = []
    i = 0
    while i < len(pieces):
        count, shift = _count_repeats(pieces, i, period)
        least = 3 if period == 1 and isinstance(pieces[i].body, int) and pieces[i].count == 1 else 2
        if count < least:
            joined.append(pieces[i])
            i += 1
            continue
        block = tuple(pieces[i : i + period])
        if period == 1 and block[0].count == 1:
            joined.append(_Piece(block[0].body, count, shift))
        else:
            joined.append(_Piece(block, count, shift))
        i += count * period
    return joined


def _count_repeats(pieces: list[_Piece], start: int, period: int) -> tuple[int, int]:
    """How often the block at `start` repeats with one constant positive shift."""
    if start + 2 * period > len(pieces):
        return 1, 0
    shift = _first(pieces[start + period]) - _first(pieces[start])
    if shift <= 0:
        return 1, 0
    count = 1
    while start + (count + 1) * period <= len(pieces):
        here = start + count * period
        if any(pieces[here + j] != _shifted(pieces[here - period + j], shift) for j in range(period)):
            break
        count += 1
    return count, shift


def parse_tree(text: str, most_items: int = MOST_ITEMS) -> Item:
    """The tree of a text; raises RecipeError, for more than `most_items` terms and sums before they are made."""
    # Read once to count: brackets that double make a short text a tree of any size.
    _Parser(text, most_items, makes=False).parse()
    return _Parser(text, most_items, makes=True).parse()


class _Parser:
    """Recursive descent over the tokens of one tree; unless it `makes` them, repeated items stand there once."""

    def __init__(self, text: str, most_items: int, *, makes: bool):
        self.text = text
        self.makes = makes
        self.most_items = most_items
        self.tokens = _TOKEN.findall(text)
        if "".join(self.tokens) != text:
            raise RecipeError(f"a tree holds numbers, ()[]{{}} + : * @ and nothing else: {text[:80]!r}")
        self.at = 0
        self.made = 0

    def parse(self) -> Item:
        items = self._items(0)
        if self.at != len(self.tokens):
            self._fail("a closing bracket too many")
        return items[0] if len(items) == 1 and not isinstance(items[0], int) else Chain(tuple(items))

    def _fail(self, says: str) -> None:
        raise RecipeError(f"tree {self.text[:80]!r}, token {self.at + 1}: {says}")

    def _peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def _take(self, expected: str = "") -> str:
        token = self._peek()
        if not token or (expected and token != expected):
            self._fail(f"expected {expected or 'more'}")
        self.at += 1
        return token

    def _number(self) -> int:
        token = self._take()
        if not is_whole_number(token, 12):
            self._fail("expected a number")
        return int(token)

    def _items(self, depth: int) -> list[Item]:
        if depth > _DEEPEST:
            self._fail(f"more than {_DEEPEST} brackets inside each other")
        items = self._piece(depth)
        while self._peek() == "+":
            self._take()
            items.extend(self._piece(depth))
        return items

    def _piece(self, depth: int) -> list[Item]:
        opening, before = self._peek(), self.made
        if opening == "[":
            self._take()
            inner = self._items(depth + 1)
            self._take("]")
            return self._repeat(inner, before)
        if opening == "(":
            self._take()
            self._count(1)
            inner = self._items(depth + 1)
            self._take(")")
            return self._repeat([Chain(tuple(inner), self._format())], before)
        if opening == "{":
            self._take()
            self._count(1)
            inner = self._items(depth + 1)
            self._take("}")
            terms = [t for t in inner if isinstance(t, int)]
            if len(terms) != len(inner):
                self._fail("a multi-term addition holds terms only")
            return self._repeat([Fused(tuple(terms))], before)
        return list(self._range())

    def _format(self) -> str:
        following = self.tokens[self.at + 1] if self.at + 1 < len(self.tokens) else ""
        if self._peek() != "@" or is_whole_number(following):
            return ""
        self._take("@")
        name = self._take()
        if name not in FORMATS:
            self._fail(f"unknown format {name!r}; one of {', '.join(FORMATS)}")
        return name

    def _range(self) -> Sequence[int]:
        start = self._number()
        if self._peek() != ":":
            self._count(1)
            return (start,)
        self._take()
        stop = self._number()
        step = 1
        if self._peek() == ":":
            self._take()
            step = self._number()
        if step < 1 or stop <= start:
            self._fail("a range needs start < stop and a step of at least 1")
        found = range(start, stop, step)
        self._count(len(found))
        return found if self.makes else found[:1]

    def _repeat(self, items: list[Item], before: int) -> list[Item]:
        """The items as often as the text says; `before` is what was made before them."""
        if self._peek() != "*":
            return items
        self._take()
        count = self._number()
        self._take("@")
        shift = self._number()
        if count < 1:
            self._fail("a tree repeats its items at least once")
        self._count((count - 1) * (self.made - before))
        if not self.makes:
            return items
        return [map_terms(i, lambda t, by=shift * n: t + by) for n in range(count) for i in items]

    def _count(self, items: int) -> None:
        self.made += items
        if self.made > self.most_items:
            self._fail(f"a recipe's trees have at most {MOST_ITEMS:,} terms and sums, and here they would have more")
