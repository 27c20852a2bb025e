"""Weights that were solved for: shifted, shuffled, lost, another layer's."""
