"""What docs/repeatable_run.md tells of examples/training.py, with the draws that it leaves to chance fixed."""

import subprocess
import sys
from pathlib import Path

import pytest

from samebits.questions.runs.run_diff import diff

pytestmark = pytest.mark.needs("torch")
ROOT = Path(__file__).parent.parent.parent
SCRIPT = (ROOT / "examples" / "training.py").read_text()
PAGE = " ".join((ROOT / "docs" / "repeatable_run.md").read_text().replace("\n> ", " ").split())
# In front of what it computes, as the page has it; where that is unseeded, with two seeds.
PLACE = "images = np.random"


def compare(tmp_path, *seeds):
    traces = []
    for n, seed in enumerate(seeds):
        script = tmp_path / str(n) / "training.py"
        script.parent.mkdir()
        script.write_text(SCRIPT.replace(PLACE, seed + PLACE, 1))
        traces.append(script.with_suffix(".trace"))
        command = [sys.executable, "-m", "samebits", "trace", "-o", str(traces[-1]), "--", sys.executable, str(script)]
        subprocess.run(command, check=True, capture_output=True)
    return diff(*traces)


def test_without_a_seed_the_weights_start_otherwise(tmp_path):
    found = compare(tmp_path, *(f"torch.manual_seed({n}); np.random.seed(0); " for n in (1, 2)))
    assert found.first.reason == "random state"
    assert found.summary in PAGE
    assert "torch seed" in [s.name for s in found.settings]


def test_with_torchs_seed_the_flip_is_another_one(tmp_path):
    # With 0 the first number that is drawn is above a half, with 1 below.
    found = compare(tmp_path, *(f"torch.manual_seed(0)\nnp.random.seed({n}); " for n in (0, 1)))
    assert found.first.kind == "structure"
    assert found.summary in PAGE
    assert [(s.name, s.set) for s in found.settings] == [("numpy random state", "numpy.random.seed(N)")]


def test_with_both_seeds_it_repeats_itself(tmp_path):
    found = compare(tmp_path, *["torch.manual_seed(0)\nnp.random.seed(0)\n"] * 2)
    assert found.same
    assert found.summary.startswith("Both runs did the same ")
    assert found.summary.rpartition("operations")[2] in PAGE
