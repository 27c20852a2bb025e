"""Questions put to a runner through convolutions alone; one question per file."""
