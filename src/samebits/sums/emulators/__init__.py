"""Executing recipes, bit for bit."""

from samebits.sums.emulators.emulator import emulate

__all__ = ["emulate"]
