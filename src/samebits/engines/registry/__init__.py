"""A runner from its text: which engines there are, and what a text asks of them."""
