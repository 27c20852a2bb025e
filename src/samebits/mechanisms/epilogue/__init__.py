"""Bias and activation: left out, twice, too early, too late, not asked for."""
