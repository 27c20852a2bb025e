"""Which of the mechanisms explains a result best."""
