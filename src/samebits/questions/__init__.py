"""What people ask, a room each."""
