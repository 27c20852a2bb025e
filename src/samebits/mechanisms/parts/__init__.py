"""Faults of a part of the result: a region, a channel, single values."""
