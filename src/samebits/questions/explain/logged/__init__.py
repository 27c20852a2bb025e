"""What a log of another tool tells of a mismatch."""
