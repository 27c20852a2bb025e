"""A network between engines: which unit deviates, why, and what ends it."""
