"""When a hypothesis about a result is accepted, and how that is said."""
