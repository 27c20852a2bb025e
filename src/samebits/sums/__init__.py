"""Sums of products: walked in tiles, correctly rounded, bounded, written as recipes, and executed by emulators."""
