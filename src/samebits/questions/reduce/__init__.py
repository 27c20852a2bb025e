"""A fault made small: the smallest problem that shows it, when it is there, and a script without samebits."""
