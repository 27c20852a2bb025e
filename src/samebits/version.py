"""The version of samebits, in one place."""

VERSION = "0.1.0"
