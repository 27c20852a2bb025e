"""What two runs of a seeded script are told to set: only what makes them alike."""

import sys

import pytest

from samebits.questions.runs.diff_report import say_next
from samebits.questions.runs.run_diff import diff
from traced_runs import run_traced

pytestmark = pytest.mark.needs("torch")

# Three epochs, so that workers are started three times; all random states are seeded.
SCRIPT = """
import random, sys
import torch
from torch.utils.data import DataLoader, Dataset

WORKERS, IS_VALIDATED, IS_SET = int(sys.argv[1]), sys.argv[2] == "validated", sys.argv[2] == "set"
random.seed(1); torch.manual_seed(1)
classes = {f"class {n}" for n in range(40)}
numbers = {name: n for n, name in enumerate(classes if IS_SET else sorted(classes))}


class Data(Dataset):
    x = torch.arange(320, dtype=torch.float32).view(40, 8)

    def __len__(self):
        return 40

    def __getitem__(self, i):
        x = self.x[i]
        for _ in range(8):
            x = x.flip(0) + 1 if random.random() < 0.5 else x + 2
        return x, numbers[f"class {i}"]


net = torch.nn.Linear(8, 40)
step = torch.optim.SGD(net.parameters(), 1e-3)
own = torch.Generator() if sys.argv[2] == "generator" else None
if own is not None:
    own.seed()
loader = DataLoader(Data(), batch_size=10, shuffle=True, num_workers=WORKERS, generator=own)
for epoch in range(3):
    for x, y in loader:
        step.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        step.step()
    if IS_VALIDATED:
        with torch.no_grad():
            print(sum(net(x).relu().sum() for x, _ in loader))
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "train.py").write_text(SCRIPT)
    known = {}

    def record(workers, how, again=0):
        path = folder / f"{workers}{how}{again}.trace"
        if path not in known:
            done = run_traced(path, sys.executable, "train.py", str(workers), how, cwd=folder)
            assert done.returncode == 0, done.stderr
        known[path] = True
        return path

    return record


def ask(a, b):
    found = diff(a, b)
    return found, " / ".join(say_next(found.first, found.settings, found.captured, found.drawn))


@pytest.mark.parametrize(("a", "b"), [(0, 2), (2, 3)])
def test_other_numbers_of_workers_are_counted_and_need_no_seed(record, a, b):
    found, advice = ask(record(a, "plain"), record(b, "plain"))
    assert [(s.a, s.b) for s in found.settings if s.name == "workers"] == [(str(a), str(b))]
    assert [s.name for s in found.settings] == ["workers"]
    assert "num_workers" in advice
    assert "random.seed" not in advice
    # The order is the same in both runs: only what workers draw differs.
    assert found.first.reason != "order of the data"
    assert "enerator" not in advice


def test_a_generator_that_nobody_seeds_is_to_be_seeded(record):
    found, advice = ask(record(0, "generator"), record(0, "generator", 1))
    assert found.first.reason == "random state"
    assert "the generator that it is given stands elsewhere" in found.summary
    assert advice.startswith("seed the generator where it is made")


def test_a_validation_that_draws_is_told_to_have_its_own_generator(record):
    found, advice = ask(record(0, "plain"), record(0, "validated"))
    assert found.first.kind == "structure"
    assert found.drawn.operation == "aten.random_.default"
    assert SCRIPT.splitlines()[int(found.drawn.line.rpartition(":")[2]) - 1].strip().startswith("print(sum(net(x)")
    assert "generator=torch.Generator()" in advice
    assert "seed" not in advice


def test_the_order_of_a_set_is_asked_for_where_the_data_differ_and_nothing_else(record):
    found, advice = ask(record(0, "set"), record(0, "set", 1))
    assert found.first.reason == "data"
    assert "PYTHONHASHSEED=0" in advice
    assert diff(record(0, "plain"), record(0, "plain", 1)).same


def test_with_a_hash_seed_sets_are_not_spoken_of(record, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    one = record(0, "set", 2)
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    other = record(0, "set", 3)
    found, advice = ask(one, other)
    assert [(s.name, s.a, s.b) for s in found.settings] == [("env PYTHONHASHSEED", "1", "2")]
    assert "PYTHONHASHSEED=1" in advice
