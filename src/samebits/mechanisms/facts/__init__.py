"""What a recorded result shows by itself, and what a hypothesis about it is."""
