"""The fastest way to compute a problem that keeps a contract: tried, checked, kept in a lock file."""
