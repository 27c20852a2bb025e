"""ARCHITECTURE.md says what is there: its table names every part, and only files that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "samebits"


def test_every_file_the_table_names_exists():
    table = [line for line in TEXT.splitlines() if line.startswith("|")]
    named = [path for line in table for path in re.findall(r"`([\w./-]+/[\w./-]*)`", line)]
    assert len(named) > 15
    missing = [path for path in named if not (PACKAGE / path).exists() and not (ROOT / path).exists()]
    assert not missing


def test_every_part_stands_in_the_picture_and_in_the_table():
    parts = [p.name for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    picture = TEXT.partition("```")[2].partition("```")[0]
    assert sorted(part for part in parts if not re.search(rf"\b{part}\b", picture)) == []
    table = "\n".join(line for line in TEXT.splitlines() if line.startswith("|"))
    assert sorted(part for part in parts if f"`{part}/" not in table) == []


def test_no_source_file_is_longer_than_four_hundred_lines():
    long = {p: n for p in PACKAGE.rglob("*.py") if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_every_source_file_says_what_it_is():
    silent = [p for p in PACKAGE.rglob("*.py") if not p.read_text().lstrip().startswith('"""')]
    assert not silent
