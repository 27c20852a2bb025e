"""One problem over many sizes and settings: where do the bits change."""

from samebits.questions.sweep.sweeping import sweep

__all__ = ["sweep"]
