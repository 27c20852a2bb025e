"""One problem over many sizes and settings: where do the bits change."""
