"""Findings as people see them: terminal text, drawings, pictures. Made from findings alone."""
