"""Two runs of a script: recorded operation by operation, and held against each other."""
