"""Executing recipes, bit for bit."""

# Tiles refuse an address space that is too narrow before any library that computes is loaded.
import samebits.sums.tiles as _  # noqa: F401 -- imported for what it refuses
from samebits.sums.emulators.emulator import emulate

__all__ = ["emulate"]
