"""Somebody else's libraries as runners, each in a process of its own."""
