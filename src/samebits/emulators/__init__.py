"""Executing recipes, bit for bit."""

from samebits.emulators.emulator import Emulator, emulate

__all__ = ["Emulator", "emulate"]
