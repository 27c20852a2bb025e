"""Somebody else's libraries as runners, one framework a file."""
