"""Results stored in a narrower format."""
