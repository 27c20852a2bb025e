"""Two runs of a script: recorded operation by operation and compared."""
