"""What torch's own DebugMode prints of two runs, compared."""

import importlib.util
import re
import subprocess
import sys

import pytest

from samebits.errors import ArgumentError, TraceError
from samebits.questions.runs.run_diff import diff

pytestmark = pytest.mark.needs("torch")


DEBUG_MODE = """
import sys, torch
from torch.utils._debug_mode import DebugMode
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
x = torch.randn(2, 3, 8, 8)
if "input" in sys.argv:
    x[0, 0, 0, 0] += 1
if "kernel" in sys.argv:
    torch.backends.mkldnn.enabled = False
made = DebugMode(record_nn_module=True, record_stack_trace=True)
functions = ["norm", "hash_tensor"] if "both" in sys.argv else "norm"
with made as mode, DebugMode.log_tensor_hashes(hash_fn=functions, hash_inputs="without" not in sys.argv):
    y = net(x) if "more" not in sys.argv else net(x).exp()
    y.sum().backward()
print(mode.debug_string())
"""


@pytest.fixture(scope="module")
def debug_log(tmp_path_factory):
    if importlib.util.find_spec("torch.utils._debug_mode") is None:
        pytest.skip("this torch has no DebugMode")
    folder = tmp_path_factory.mktemp("logs")

    def take(*changes):
        path = folder / ("_".join(changes) + ".txt")
        if not path.exists():
            command = [sys.executable, "-c", DEBUG_MODE, *changes]
            path.write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return path

    return take


def test_logs_of_debug_mode_are_compared(debug_log):
    same = diff(debug_log(), debug_log("again"))
    assert same.same
    assert "hashes" in same.summary
    found = diff(debug_log(), debug_log("kernel"))
    assert (found.first.kind, found.first.operation) == ("operation", "aten.convolution")
    assert found.first.module == "Sequential.0"
    assert "under the same settings" not in found.summary
    assert diff(debug_log(), debug_log("input")).first.kind == "inputs"
    # Of different lengths: what is behind the addition has other inputs, and is not what differs first.
    longer = diff(debug_log(), debug_log("more"))
    assert longer.only_b > 0
    assert longer.first is None or longer.first.operation != "aten.convolution"


def test_what_a_log_does_not_say_is_said_so(debug_log, record):
    found = diff(debug_log("without", "both"), debug_log("without", "both", "kernel"))
    assert found.first.kind == "operation"
    assert any("is inferred" in e.says for e in found.evidence)
    with pytest.raises(TraceError, match="no hashes in common"):
        diff(debug_log(), record())
    found = diff(debug_log(), debug_log("kernel"), capture="case.npz", run=True)
    assert any("not captured" in e.says for e in found.evidence)
    for target in (record(), "missing/case.npz", "."):
        with pytest.raises(ArgumentError):
            diff(record(), record("mkldnn=off"), capture=target)


def test_a_log_without_hashes_and_damaged_ones_are_one_line(debug_log, tmp_path):
    bare = tmp_path / "bare.txt"
    bare.write_text(re.sub("  # .*", "", debug_log().read_text()))
    with pytest.raises(TraceError, match="no hashes in it"):
        diff(bare, bare)
    odd = tmp_path / "odd.txt"
    odd.write_text(re.sub("'hash': [^}]*", "'hash': __import__('os').system('true')", debug_log().read_text()))
    with pytest.raises(TraceError, match="no hashes in it"):
        diff(odd, odd)
