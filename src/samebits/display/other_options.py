"""Options that people know from other tools, and what does that here."""

from __future__ import annotations

_PAGE = "a page is made of findings: the same with --json > found.json, then samebits report found.json -o page.html"
_ENGINE = "engines are named with --on, e.g. --on torch --on onnxruntime"
_TOLERANCE = "no tolerance is given: every output is judged by the error that its own data and format allow"
_FORMAT = 'the format belongs to the problem, as in "linear x=4x8 w=16x8 dtype=float16", or to a network'
_DEVICE = "where an engine runs is part of its text, as in --on torch:device=cuda; docs/engines.md has all places"
_BATCH = "a network's open sizes are given with --size batch=4; a problem has its batch in x="
_SHAPE = "a network's open sizes are given with --size INPUT=1x3x224x224"
_SETTING = "settings are part of an engine's text, as in --on torch:threads=1"

_INSTEAD = {
    **dict.fromkeys(("-o", "--output", "--out", "--html", "--report", "--save", "--page"), _PAGE),
    **dict.fromkeys(("--engine", "--engines", "--backend", "--backends", "--provider", "--ep", "--runtime"), _ENGINE),
    **dict.fromkeys(("--rtol", "--atol", "--tol", "--tolerance", "--threshold", "--cosine", "--max-ulp"), _TOLERANCE),
    **dict.fromkeys(("--dtype", "--precision", "--fp16", "--half", "--bf16"), _FORMAT),
    **dict.fromkeys(("--device", "--gpu", "--cuda", "--cpu"), _DEVICE),
    **dict.fromkeys(("--batch", "--batch-size", "-b"), _BATCH),
    **dict.fromkeys(("--shape", "--shapes", "--input-shape", "--input-shapes", "--sizes"), _SHAPE),
    **dict.fromkeys(("--threads", "--num-threads", "-j", "--setting", "--config"), _SETTING),
}


def find_instead(option: str, command: str) -> str | None:
    """What does here what an option does in other tools; None for an option that is not in the table."""
    found = _INSTEAD.get(option)
    return "the page's name is given with -o page.html" if found == _PAGE and command == "report" else found
