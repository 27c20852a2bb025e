"""What holds of engines wherever they are; and a Python whose processes and folders are known from those of others."""

import sys
import time
from pathlib import Path

import numpy as np

import samebits
from samebits.engines.registry.runners import open_runner
from samebits.numbers.ulps import has_same_bits
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal


def check_that_findings_are_the_same(place):
    """What is found of onnxruntime at a place, as texts of engines name it, is what is found here."""
    for text in ("conv2d x=1x3x9x9 w=4x3x3x3 padding=1", "linear x=30x70 w=20x70 bias"):
        here, there = samebits.compare(text, ["onnxruntime", f"onnxruntime:{place}"]).sides
        assert (there.verdict, there.version, there.error) == (here.verdict, here.version, here.error)
        assert (there.exact_data, there.bits) == (here.exact_data, here.bits)


def check_that_nothing_stays(place, folder):
    """NumPy runs at a place with the Python made in `folder`, and leaves no process and no folder."""
    marked = MarkedPython(folder)
    problem = parse_problem_text("linear x=3x8 w=4x8")
    with open_runner(f"numpy:{place},python={marked.path},env.A_VARIABLE=1") as runner:
        assert runner.identify().version == np.__version__
        operands = make_normal(problem)
        with open_runner("numpy") as own:
            assert has_same_bits(runner.run(problem, operands), own.run(problem, operands))
        assert marked.list_processes()
        assert [*marked.temporary.iterdir()]
    marked.wait_until_nothing_stays()


class MarkedPython:
    """The program `path` is this Python: its processes carry a mark, its temporary folders are made in `temporary`."""

    def __init__(self, folder: Path) -> None:
        self.path, self.temporary = folder / "marked-python", folder / "temporary"
        self.temporary.mkdir()
        self._mark = f"mark-of-{folder}"
        self.path.write_text(f'#!/bin/sh\nTMPDIR={self.temporary} exec {sys.executable} "$@" {self._mark}\n')
        self.path.chmod(0o755)

    def list_processes(self):
        """The numbers of the processes that run now."""
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if self._mark.encode() in words:
                found.append(entry.parent.name)
        return found

    def wait_until_nothing_stays(self):
        """Fails where processes or folders stay for ten seconds."""
        for _ in range(100):
            if not self.list_processes() and not [*self.temporary.iterdir()]:
                return
            time.sleep(0.1)
        raise AssertionError(f"something stayed: {self.list_processes()}, {[*self.temporary.iterdir()]}")
