"""Elementary functions as libraries compute them: each a fixed sequence of float32 operations."""
