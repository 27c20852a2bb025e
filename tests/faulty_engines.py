"""Engines that fail in every way an engine can, for workers to load."""

import os
import signal
import sys
import time

import numpy as np

from samebits.engines.engine import Engine, InForce


class HealthyEngine(Engine):
    """Returns zeros of the right shape."""

    name = "fault-free"
    settings = {}  # noqa: RUF012  (as in every engine; tests change nothing)
    variables = {}  # noqa: RUF012

    def load(self, settings):
        self.environment = os.environ.get("SAMEBITS_TEST", "")

    def report(self):
        return InForce("1.0", "CPU", {"environment": self.environment})

    def explain_unsupported(self, problem):
        return "no 3-D here" if problem.rank == 3 else None

    def run(self, problem, operands):
        return np.zeros(problem.out_shape, np.float32)


class KilledEngine(HealthyEngine):
    def run(self, problem, operands):
        os.kill(os.getpid(), signal.SIGKILL)


class SegfaultEngine(HealthyEngine):
    def run(self, problem, operands):
        print("about to fall", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)


class SleepingEngine(HealthyEngine):
    def run(self, problem, operands):
        time.sleep(3600)


class SleepingLoadEngine(HealthyEngine):
    def load(self, settings):
        time.sleep(3600)


class ExitingEngine(HealthyEngine):
    def load(self, settings):
        print("licence expired", file=sys.stderr, flush=True)
        os._exit(3)


class HungryEngine(HealthyEngine):
    def run(self, problem, operands):
        raise MemoryError("cannot have that much")


class RaisingEngine(HealthyEngine):
    def run(self, problem, operands):
        raise ValueError("first line\nsecond line")


class WrongShapeEngine(HealthyEngine):
    def run(self, problem, operands):
        return np.zeros(3, np.float32)


class WrongDtypeEngine(HealthyEngine):
    def run(self, problem, operands):
        return np.zeros(problem.out_shape, np.float64)


class HugeResultEngine(HealthyEngine):
    def run(self, problem, operands):
        return np.zeros(10_000_000, np.float32)


class ChattyEngine(HealthyEngine):
    """Writes to what would be the protocol's stream if standard output were it."""

    def run(self, problem, operands):
        print("x" * 100_000, flush=True)
        os.write(1, b"\x00" * 1000)
        return super().run(problem, operands)
