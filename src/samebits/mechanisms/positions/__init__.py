"""Padding, strides, layouts: products of other positions."""
