"""Processes that engines live in: here, in another Python, in a container, on another host."""
