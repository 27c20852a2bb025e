"""Engines that fail in every way an engine can, for workers to load."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce


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


# What a worker may say in place of an answer, as JSON.
ODD_ANSWERS = (
    {}, {"report": None}, {"report": []}, {"report": {"version": 1}}, {"failure": None}, {"failure": "no"},
    {"failure": {"kind": 5, "says": "x"}}, {"failure": {"kind": "error"}}, {"ok": True}, {"runs": None}, {"runs": []},
    {"runs": [{}]}, {"runs": [{"failure": ["x"]}]}, {"runs": [None] * 3},
    {"seconds": [], "digests": [], "peak_bytes": 0},
    {"seconds": ["x"], "digests": ["a"], "peak_bytes": None}, {"seconds": [-1.0], "digests": ["a"], "peak_bytes": None},
    {"values": "abc"}, {"values": [1]}, {"inputs": {}, "notes": [], "kind": "torch", "layers": []},
    {"inputs": ["x"], "notes": ["n"], "kind": "other", "layers": []}, {"answer": [[[]]]},
)  # fmt: skip


class BabblingWorker:
    """A worker that answers properly so many times, then with JSON of another shape, or with no JSON at all."""

    def __init__(self, answers: int, odd: object):
        self.answers, self.odd = answers, odd

    def install(self) -> None:
        """From here on this process's worker answers so."""
        from samebits.engines.workers import worker

        plain, sent = worker.send_message, []

        def send(stream, header, arrays=None):
            sent.append(header)
            if len(sent) <= self.answers:
                plain(stream, header, arrays)
            elif isinstance(self.odd, bytes):
                stream.write(self.odd)
                stream.flush()
            else:
                text = json.dumps({"header": self.odd, "arrays": []}).encode()
                stream.write(len(text).to_bytes(8, "big") + text)
                stream.flush()

        worker.send_message = send


class BabblingEngine(HealthyEngine):
    """Answers as its environment says: BABBLES holds how often properly, and what then, as JSON."""

    def load(self, settings):
        super().load(settings)
        answers, odd = json.loads(os.environ["BABBLES"])
        main = sys.modules["__main__"]
        # The worker's own module runs as __main__; what it calls stands there.
        babbling = BabblingWorker(answers, odd)
        from samebits.engines.workers import worker

        worker.send_message = main.send_message
        babbling.install()
        main.send_message = worker.send_message


class ForkingEngine(HealthyEngine):
    """Forks, and starts a program, both of which would stay for an hour."""

    def load(self, settings):
        super().load(settings)
        forked = os.fork()
        if forked == 0:
            time.sleep(3600)
        started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
        self.environment = f"{forked} {started.pid}"
