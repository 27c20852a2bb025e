"""What a result of a row function may be instead: other formulas, fewer digits, rows that are read in part."""
