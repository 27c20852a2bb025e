"""Commands run under `samebits trace`, and the training that tests of runs record."""

import subprocess
import sys
from pathlib import Path

TRAINING = Path(__file__).parent / "questions" / "training.py"


def run_traced(path, *command, **options):
    full = [sys.executable, "-m", "samebits", "trace", "-o", str(path), "--", *command]
    return subprocess.run(full, capture_output=True, text=True, check=False, **options)
