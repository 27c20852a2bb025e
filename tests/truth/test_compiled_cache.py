"""Compiled code: kept where it can be, made anew when a source changed, no trouble where nothing can be written."""

import shutil
import subprocess
import sys
from pathlib import Path

import samebits

SOURCE = Path(samebits.__file__).parent
CODE = "import numpy as np, samebits; one = np.ones((1, 1, 3), np.float32); print(samebits.conv1d(one, one)[0, 0, 0])"


def run(code: str, folder: Path) -> str:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_nothing_needs_to_be_written():
    unwritable = "import numba.core.caching as c; c.CacheImpl._locator_classes = []; "
    command = [sys.executable, "-c", unwritable + CODE]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == "3.0"


def test_a_change_in_one_file_reaches_the_functions_of_others(tmp_path):
    shutil.copytree(SOURCE, tmp_path / "samebits", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(CODE, tmp_path).strip() == "3.0"
    assert list(tmp_path.glob("samebits/truth/__pycache__/*.nbc"))
    rounding = tmp_path / "samebits" / "contraction" / "rows.py"
    text = rounding.read_text()
    changed = text.replace("np.float64(array[index])", "np.float64(array[index]) * 2.0")
    assert changed != text
    rounding.write_text(changed)
    # Both operands are read twice as large.
    assert run(CODE, tmp_path).strip() == "12.0"


def test_a_forked_child_computes_too():
    code = (
        "import os, numpy as np, samebits\n"
        "one = np.ones((1, 1, 3), np.float32)\n"
        "samebits.conv1d(one, one)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if samebits.conv1d(one, one)[0, 0, 0] == 3 else 1)\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "0"
