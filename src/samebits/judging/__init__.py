"""What a result deserves: distances from the truth, thresholds, and the one rule that makes a verdict."""
