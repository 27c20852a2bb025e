"""How an engine's text may go on, for shells that complete what is being typed."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.engines.registry.known_engines import ENGINES, list_plugins
from samebits.engines.registry.runner_text import EMULATE, TRUTH

# Bash ends a word at these, and asks for what follows alone.
_BREAKS = (":", "=")


def complete_engine_text(text: str) -> list[str]:
    """Longer texts that begin so: names of engines, or one more setting with its values.

    >>> complete_engine_text("openv"), complete_engine_text("torch:mkl")
    (['openvino'], ['torch:mkldnn=on', 'torch:mkldnn=off'])
    """
    name, colon, settings = text.partition(":")
    if not colon:
        known = [*ENGINES, *(plugin.name for plugin in list_plugins()), TRUTH, EMULATE]
        return [one for one in known if one.startswith(text)]
    if name not in ENGINES:
        return []
    own = ENGINES[name].load_class().settings
    *given, last = settings.split(",")
    named = {one.partition("=")[0] for one in given}
    kept = ",".join([*given, ""])
    texts = (f"{key}={value}" for key, s in own.items() if key not in named for value in s.choices or ("",))
    return [f"{name}:{kept}{one}" for one in texts if one.startswith(last)]


def complete_broken_words(words: Sequence[str], at: int) -> list[str] | None:
    """What may stand for the word `at` of a line that Bash has split, without what it keeps; None for other words."""
    if at >= len(words):
        return None
    joined, first = "", at + (words[at] in _BREAKS)
    while first > 1 and (words[first - 1] in _BREAKS or joined[:1] in _BREAKS):
        first -= 1
        joined = words[first] + joined
    if ":" not in joined:
        return None
    typed = "" if words[at] in _BREAKS else words[at]
    return [text[len(joined) :] for text in complete_engine_text(joined + typed)]
