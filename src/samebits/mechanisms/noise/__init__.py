"""Errors that no prediction fits bit for bit: how they are distributed, and what leaves them so."""
