"""Reproducers: a fault as a script that needs the engine and NumPy alone, and as a line for benchdnn."""
