"""What can have happened to an attention: other keys hidden or read, other heads, another softmax, fewer digits."""
