"""What is said and shown of a network."""
