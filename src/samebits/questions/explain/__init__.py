"""Recorded results and logs: what made them, found among hypotheses, without any engine."""
