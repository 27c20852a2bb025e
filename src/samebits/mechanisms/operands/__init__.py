"""Operands that were altered, rounded in part, or other ones."""
