"""Many problems, cases and networks on many engines: rows of a table that outlives an interruption."""
