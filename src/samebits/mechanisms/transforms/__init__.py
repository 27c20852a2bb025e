"""Winograd and Fourier transforms: their sizes, their arrangements, what of them is narrow."""
