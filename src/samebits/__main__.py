"""`python -m samebits`."""

import sys

from samebits.cli import run_program

if __name__ == "__main__":
    sys.exit(run_program())
