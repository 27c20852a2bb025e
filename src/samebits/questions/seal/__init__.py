"""Sealed numerics: how an engine computes, written down, to be checked elsewhere before any user data."""
