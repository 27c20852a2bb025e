"""A network between engines: divided into units, each judged on what it was really fed."""
