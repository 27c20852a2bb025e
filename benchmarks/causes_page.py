"""Writes docs/causes.md from the table of causes: `make causes`."""

from __future__ import annotations

import sys
from pathlib import Path

from samebits.findings.causes import CAUSES, Cause
from samebits.findings.settings_advice import advise

PAGE = Path(__file__).parent.parent / "docs" / "causes.md"
ABOUT = """# Causes

What findings name as the cause of a difference, from harmless to grave; of two causes the graver one names the whole.
The table is `findings/causes.py`; this page is written from it (`make causes`). Settings are those that their makers,
or a report, say help; none of them was tried by the finding that lists them.
"""


def format_cause(cause: Cause) -> str:
    """One section: the code, its verdicts, what it is, what to do."""
    lines = [
        f"## {cause.code}",
        "",
        f"{cause.phrase[0].upper()}{cause.phrase[1:]}. Verdict: {' or '.join(cause.verdicts)}"
        + (f"; within the error bound {cause.within_bound}" if len(cause.verdicts) > 1 else "")
        + ".",
        "",
        f"What to do: {cause.advice}.",
    ]
    known = [f for f in advise([cause.code]) if f.source != cause.link]
    if known:
        lines += ["", "| engine | setting or change | why | source |", "|---|---|---|---|"]
        rows = [f"| {f.engine} | `{f.setting}` | {f.why} | {f.source} |" for f in known]
        lines += [row.replace("|x||w|", r"\|x\|\|w\|") for row in rows]
    return "\n".join(lines)


def format_page() -> str:
    """The whole page."""
    return "\n".join([ABOUT, "\n\n".join(map(format_cause, CAUSES)), ""])


if __name__ == "__main__":
    PAGE.write_text(format_page())
    sys.exit(0)
