"""Layers watched while a network runs or learns: what they computed against what they should."""
