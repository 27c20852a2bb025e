"""Which engine is right about one problem, and what made the others differ."""
