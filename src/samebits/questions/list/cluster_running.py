"""A list asked on a Ray cluster: a worker on every node, engines on their nodes, a lost node's subjects asked again."""

from __future__ import annotations

import itertools
import logging
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.errors import ArgumentError, FindingError
from samebits.networks.onnx_reading import list_external_files
from samebits.questions.list.cluster_worker import EngineHost, SubjectWorker
from samebits.questions.list.list_reading import Subject
from samebits.questions.list.row import UNREADABLE, Row
from samebits.questions.list.subject_running import Asking
from samebits.regular_files import OWN_FOLDER

# How long a list waits for a node that has what it needs; how often it looks which nodes there are.
_PATIENCE_S, _LOOK_S, _WAIT_S, _CONNECT_S = 60.0, 2.0, 0.5, 5.0
# A first start on a node brings samebits there. Ray ends a process that misses the head for a minute.
_START_S, _PROBE_S, _HEAD_S = 300.0, 30.0, 20.0
# A subject whose worker, or whose engine elsewhere, is lost this often is not asked again. With a node all its engines
# are lost, again and again until the cluster knows it.
_MOST_TRIES, _MOST_TRIES_ELSEWHERE = 3, 60
# Ray's own number of threads would change what engines compute.
_THREADS = "OMP_NUM_THREADS"
# samebits lies in a new place on each cluster; compiled code is found again where it lies in the same one.
_CODE, _CODE_THERE = "SAMEBITS_CODE_DIR", "~/.cache/samebits"


@contextmanager
def open_cluster(address: str) -> Iterator[Any]:
    """Ray, connected to the cluster at an address; raises SamebitsError in one line where there is none."""
    ray = _connect(address)
    try:
        yield ray
    finally:
        ray.shutdown()


def ask_on_cluster(
    ray: Any, asking: Asking, subjects: Sequence[Subject], todo: Sequence[int]
) -> Generator[tuple[int, list[Row]]]:
    """The rows of each subject, as they come.

    An engine is asked on the nodes that declare a resource of its name; where none does, on those that have it
    installed. A worker that lacks it asks an actor there. Raises FindingError in one line where no node is left that
    can go on.
    """
    return _Cluster(ray, asking, subjects).ask(todo)


def _connect(address: str) -> Any:
    if address in ("", "local"):
        raise ArgumentError(f"--ray {address!r} names no cluster that runs; give HOST:PORT, or auto for this machine's")
    place = address.partition("://")[2] or address
    try:
        if ":" in place and not _answers(place, _CONNECT_S):
            raise ArgumentError(f"no Ray cluster at {address!r}: nothing answers there")
        import ray
    except ModuleNotFoundError:
        raise FindingError("a cluster needs one more package: pip install 'samebits[ray]'") from None
    except ValueError as error:
        raise ArgumentError(f"no Ray cluster at {address!r}: {error}") from None
    _probe(address)
    # What runs on the nodes is what runs here.
    sent = {"py_modules": [str(OWN_FOLDER)], "env_vars": {_CODE: os.environ.get(_CODE, _CODE_THERE)}}
    try:
        ray.init(address=address, runtime_env=sent, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ArgumentError(f"no Ray cluster at {address!r}: {' '.join(str(error).split())[:200]}") from None
    return ray


def _answers(place: str, most_s: float) -> bool:
    """Whether anything listens at HOST:PORT; raises ValueError for what is none."""
    host, _, port = place.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), most_s).close()
    except OverflowError as error:
        raise ValueError(str(error)) from None
    except OSError:
        return False
    return True


def _probe(address: str) -> None:
    """Connects from a process of its own: against a port of something else Ray tries for a quarter of an hour."""
    words = "import logging, ray, sys; ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)"
    try:
        done = subprocess.run([sys.executable, "-c", words, address], capture_output=True, text=True, timeout=_PROBE_S)
    except subprocess.TimeoutExpired:
        raise ArgumentError(f"no Ray cluster at {address!r}: no answer within {_PROBE_S:.0f} s") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended"])[-1]
        raise ArgumentError(f"no Ray cluster at {address!r}: {last.partition('Error: ')[2] or last}"[:300])


@dataclass(eq=False)
class _Node:
    """A node: its worker, the engines it declares and has, and the actors that hold some of them for others."""

    name: str
    declares: frozenset[str]
    worker: Any
    installed: frozenset[str] = frozenset()
    hosts: dict[str, Any] = field(default_factory=dict[str, Any])
    busy_with: int | None = None
    # The actors that its present subject uses.
    uses: dict[str, Any] = field(default_factory=dict[str, Any])


class _Cluster:
    """The nodes as they come and go, and what each is busy with.

    A node and a subject go through these states; `_look` sees nodes come and go, `_wait` hears of what is done:

        node      not there --_look--> _starting --_admit--> _nodes (idle) --_start--> _running --_finish--> idle
                                           |                                               |
                                           fails: _refused, _MOST_TRIES times              lost: gone, its subject waits

        subject   waiting --_start--> running --_finish--> rows
                     ^                   |
                     +---- worker lost --+   _MOST_TRIES times, then a row that says so
    """

    def __init__(self, ray: Any, asking: Asking, subjects: Sequence[Subject]) -> None:
        self._ray, self._asking, self._subjects = ray, asking, subjects
        self._nodes: dict[str, _Node] = {}
        self._starting: dict[Any, _Node] = {}
        self._running: dict[Any, _Node] = {}
        # What each node's worker failed at when it started, again and again.
        self._refused: dict[str, list[str]] = {}
        # Engines by name that some node declared, and by text that some node had: they are waited for.
        self._declared: set[str] = set()
        self._known: set[str] = set()
        # What each node had that was ever there, and which subjects are networks.
        self._had: list[set[str]] = []
        self._networks = [i for i, subject in enumerate(subjects) if subject.kind == "network"]
        self._tries: Counter[int] = Counter()
        self._tries_elsewhere: Counter[int] = Counter()
        self._turn = itertools.count()
        self._looked = float("-inf")
        self._head, self._answered = str(ray.get_runtime_context().gcs_address), time.monotonic()

    def ask(self, todo: Sequence[int]) -> Generator[tuple[int, list[Row]]]:
        """Every subject once; those whose worker was lost again."""
        # A dictionary for its sequence: subjects are taken out anywhere, and put back.
        waiting, has_begun = dict.fromkeys(todo), False
        idle_since = time.monotonic()
        while waiting or self._running:
            self._look()
            is_late = time.monotonic() - idle_since > (_START_S if self._starting else _PATIENCE_S)
            # Which nodes have an engine is known when all first nodes have answered, or failed for good.
            if has_begun := has_begun or is_late or not (self._starting or self._may_start_again):
                yield from self._refuse_networks(waiting)
                self._start(waiting)
            if self._running:
                idle_since = time.monotonic()
            elif waiting and is_late:
                raise FindingError(self._say_stuck())
            for reference in self._wait():
                if reference in self._starting:
                    self._admit(reference)
                    continue
                number, rows = self._finish(reference)
                if rows is None and self._is_given_up(number):
                    says = "the workers that were asked ended before they answered"
                    rows = [Row(subject=self._subjects[number].name, failure="crash", says=says)]
                if rows is None:
                    waiting[number] = None
                else:
                    yield number, rows

    @property
    def _may_start_again(self) -> bool:
        return any(len(says) < _MOST_TRIES for says in self._refused.values())

    def _is_given_up(self, number: int) -> bool:
        return self._tries[number] >= _MOST_TRIES or self._tries_elsewhere[number] >= _MOST_TRIES_ELSEWHERE

    def _wait(self) -> list[Any]:
        pending = [*self._running, *self._starting]
        if not pending:
            time.sleep(_WAIT_S)
            return []
        return self._ray.wait(pending, num_returns=1, timeout=_WAIT_S)[0]

    def _look(self) -> None:
        """Starts a worker on every new node, forgets those that are gone."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        if not self._head_answers():
            return
        alive = {node["NodeID"]: node for node in self._ray.nodes() if node["Alive"]}
        for known in (self._nodes, self._refused):
            for name in [name for name in known if name not in alive]:
                del known[name]
        coming = {node.name for node in self._starting.values()}
        for name, node in alive.items():
            if name not in self._nodes and name not in coming and len(self._refused.get(name, [])) < _MOST_TRIES:
                actor = self._make_actor(SubjectWorker, name).remote(self._asking, os.environ.get(_THREADS))
                declares = frozenset(node["Resources"]) & frozenset(ENGINES)
                self._declared |= declares
                self._starting[actor.list_installed.remote()] = _Node(name, declares, actor)

    def _head_answers(self) -> bool:
        """Whether the cluster's head is there; raises FindingError where it is gone: Ray would end this process."""
        if _answers(self._head, _CONNECT_S):
            self._answered = time.monotonic()
        elif time.monotonic() - self._answered > _HEAD_S:
            raise FindingError("the cluster's head does not answer any more; --resume goes on")
        return self._answered >= self._looked

    def _make_actor(self, kind: type, node: str) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        return self._ray.remote(kind).options(num_cpus=0, scheduling_strategy=place)

    def _admit(self, reference: Any) -> None:
        """A worker has started, or could not."""
        node = self._starting.pop(reference)
        try:
            node.installed = frozenset(self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            says = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            self._refused.setdefault(node.name, []).append(says[-1][:200])
            return
        self._nodes[node.name] = node
        self._had.append({text for text in self._asking.engines if self._has(node, text)})
        self._known |= self._had[-1]

    def _has(self, node: _Node, text: str) -> bool:
        """Whether an engine is at home on a node."""
        engine = parse_runner_text(text)
        if engine.name in self._declared:
            return engine.name in node.declares
        needs_package = engine.name in ENGINES and engine.place.has_our_packages
        return not needs_package or engine.name in node.installed

    def _can_ask(self, node: _Node, number: int) -> bool:
        """Whether all engines of a subject can be reached from a node; a network is run where they all are."""
        if self._subjects[number].kind == "network":
            return all(self._has(node, text) for text in self._list_network_engines())
        # An engine that no node ever had fails on any node, with the message that it gives there.
        return all(
            text not in self._known or any(self._has(other, text) for other in self._nodes.values())
            for text in self._asking.engines
        )

    def _list_network_engines(self) -> set[str]:
        """The engines that run networks, of those that some node had."""
        names = {text: parse_runner_text(text).name for text in self._known}
        return {t for t, name in names.items() if name in ENGINES and ENGINES[name].load_class().runs_onnx}

    def _refuse_networks(self, waiting: dict[int, None]) -> Generator[tuple[int, list[Row]]]:
        """Rows of networks, where no node there was ever had all engines that run them."""
        if not self._networks or not self._had or any(self._list_network_engines() <= had for had in self._had):
            return
        says = "no node of the cluster has all engines that run networks"
        for number in [n for n in self._networks if n in waiting]:
            del waiting[number]
            yield number, [Row(subject=self._subjects[number].name, failure=UNREADABLE, says=says)]

    def _start(self, waiting: dict[int, None]) -> None:
        """Gives every idle node the first subject that it can ask."""
        for node in self._nodes.values():
            number = next((n for n in waiting if self._can_ask(node, n)), None) if node.busy_with is None else None
            if number is None:
                continue
            subject = self._subjects[number]
            node.uses = {} if subject.kind == "network" else self._choose_hosts(node)
            self._running[node.worker.ask.remote(subject, _read_files(subject), node.uses)] = node
            node.busy_with = number
            del waiting[number]

    def _choose_hosts(self, node: _Node) -> dict[str, Any]:
        """An actor that holds it elsewhere, for every engine that is not at home on a node."""
        hosts: dict[str, Any] = {}
        for text in self._asking.engines:
            homes = [other for other in self._nodes.values() if self._has(other, text)]
            if node in homes or not homes:
                continue
            home = homes[next(self._turn) % len(homes)]
            if text not in home.hosts:
                given = text, self._asking.time_limit_s, os.environ.get(_THREADS)
                home.hosts[text] = self._make_actor(EngineHost, home.name).remote(*given)
            hosts[text] = home.hosts[text]
        return hosts

    def _finish(self, reference: Any) -> tuple[int, list[Row] | None]:
        """A subject's number and its rows; without rows where a worker or an engine's actor was lost."""
        node = self._running.pop(reference)
        number, node.busy_with = node.busy_with, None
        assert number is not None
        try:
            rows, lost = self._ray.get(reference)
        except self._ray.exceptions.RayError:
            # Its node may be alive: the next look starts another worker there.
            self._nodes.pop(node.name, None)
            self._tries[number] += 1
            return number, None
        for text in lost:
            for other in self._nodes.values():
                if other.hosts.get(text) is node.uses[text]:
                    del other.hosts[text]
        if rows is None:
            self._tries_elsewhere[number] += 1
            self._looked = float("-inf")
            time.sleep(_WAIT_S)
            return number, None
        return number, msgspec.json.decode(rows, type=list[Row])

    def _say_stuck(self) -> str:
        missing = sorted(t for t in self._known if not any(self._has(node, t) for node in self._nodes.values()))
        what = f"no node of the cluster is left that has {', '.join(missing)}" if missing else "no node can be used"
        why = "; ".join(says[-1] for says in self._refused.values())
        return f"{what}{f' ({why})' if why else ''}; --resume goes on"


def _read_files(subject: Subject) -> dict[str, bytes]:
    """What travels with a subject: its file and, of a network, what lies beside it, by name in its folder."""
    if subject.kind == "problem" or subject.trouble:
        return {}
    path = Path(subject.text)
    names = [path.name, *(list_external_files(path) if subject.kind == "network" else [])]
    try:
        return {name: (path.parent / name).read_bytes() for name in names}
    except OSError:
        # The worker says what is wrong with it.
        return {}
