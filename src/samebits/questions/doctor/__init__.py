"""Which engines are here, and which settings decide their bits."""
