"""Integers instead of floating-point numbers, and how they were scaled."""
