"""What sides are called in sentences."""

import msgspec
import pytest

from hand_made import make_side
from samebits.findings.words.place_words import shorten_names


def names(*texts):
    """Short names of engines; of a text in brackets, which is a recorded result, too."""
    sides = [make_side(t.strip("[]"), "rounding") for t in texts]
    engines = [
        s if t.startswith("[") else msgspec.structs.replace(s, engine=t) for s, t in zip(sides, texts, strict=True)
    ]
    return list(shorten_names(engines).values())


@pytest.mark.parametrize(
    ("texts", "short"),
    [
        (["torch:threads=1", "jax"], ["torch", "jax"]),
        (["torch:threads=1", "torch:threads=2", "jax:x=1"], ["torch:threads=1", "torch:threads=2", "jax"]),
        (["emulate:direct", "torch"], ["emulate", "torch"]),
        (["emulate:direct", "torch", "emulate:fft"], ["emulate 1", "torch", "emulate 2"]),
        (["emulate:direct", "emulate:fft"], ["emulate 1", "emulate 2"]),
        (["[run:1]", "[other]"], ["run:1", "other"]),
        (["[torch:a]", "torch:b"], ["torch:a", "torch:b"]),
        ([], []),
    ],
)
def test_an_engine_alone_is_its_name_where_that_says_which(texts, short):
    assert names(*texts) == short
