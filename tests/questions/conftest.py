"""Recordings of the training in tests/questions/training.py, each made once."""

import sys

import pytest

from traced_runs import TRAINING, run_traced


@pytest.fixture(scope="session")
def record(tmp_path_factory):
    """The trace of the training with some changes; each is run once."""
    folder = tmp_path_factory.mktemp("traces")

    def take(*changes):
        path = folder / ("_".join(changes) + ".trace")
        if not path.exists():
            done = run_traced(path, sys.executable, str(TRAINING), *[c for c in changes if c != "again"])
            assert done.returncode == 0, done.stderr
            assert done.stdout.startswith("loss")
        return path

    return take
