"""Another file of a network as a side of its own, and what is said of it: `samebits compare ... --against FILE`."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path

import numpy as np

from samebits.engines.runner import Runner
from samebits.findings.causes import CauseCode
from samebits.networks.bound_sizes import bind_sizes
from samebits.networks.channel_orders import ChannelOrders, find_channel_orders
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.conversions import Conversion, find_conversion, list_odd_weights
from samebits.networks.file_differences import (
    FileDifference,
    blame_conversion,
    blame_file,
    list_file_differences,
    list_sentences,
)
from samebits.networks.matched_files import take_other
from samebits.networks.model_conclusion import Asked, Outcome
from samebits.networks.model_runners import ModelRunner, OtherFileRunner, is_onnx_engine, open_model_runner
from samebits.networks.model_sentences import say_odd_weights, say_other_sequence, say_rewritten
from samebits.networks.network import Network
from samebits.networks.network_judging import judge_network
from samebits.networks.onnx_reading import make_network
from samebits.networks.rewritten_parts import join_rewritten
from samebits.progress import Progress, prefix_progress

_LIMITED = ("Clip", "HardSigmoid", "HardSwish", "Max", "Min", "Shrink", "ThresholdedRelu")


@dataclass
class OtherFile:
    """The other file of `first`, its values named as that network's; `fed` are the inputs of both."""

    first: Network
    against: InitVar[str | Path | Network]
    fed: Mapping[str, np.ndarray]
    network: Network = field(init=False)
    orders: ChannelOrders = field(init=False)
    # What a converter made of the whole file, if it did.
    conversion: Conversion | None = field(init=False)
    # Nodes of the first file in parts where this one computes other values on purpose.
    rewritten: frozenset[str] = frozenset()

    def __post_init__(self, against: str | Path | Network) -> None:
        shapes = {name: array.shape for name, array in self.fed.items()}
        taken = take_other(self.first, against, shapes)
        self.network = settle_control_flow(taken, self.fed, make_network)
        self.orders = find_channel_orders(*self._bind(self.first, self.network))
        self.conversion = find_conversion(self.first, self.network)

    def _bind(self, *networks: Network) -> tuple[Network, Network]:
        shapes = {name: array.shape for name, array in self.fed.items()}
        first, second = (bind_sizes(one, shapes) for one in networks)
        return first, second

    def open(
        self, on: Sequence[str | ModelRunner | Runner], opened: contextlib.ExitStack, time_limit_s: float
    ) -> Asked:
        """The side: the first engine of `on` that reads ONNX runs the file; onnxruntime where none does."""
        reads = [t for t in on if isinstance(t, str) and is_onnx_engine(t)]
        runner = open_model_runner(reads[0] if reads else "onnxruntime", time_limit_s=time_limit_s)
        opened.callback(runner.close)
        own = OtherFileRunner(runner, self.network, self.first, self.orders.values)
        return Asked(own.text, own)

    def join(self, outcome: Outcome, progress: Progress) -> Outcome:
        """The outcome with what the file computes otherwise on purpose as one unit on its side."""
        if self.conversion is not None:
            return outcome
        found = join_rewritten(outcome, outcome.asked[-1], progress)
        self.rewritten = found.nodes
        return found.outcome

    def blame(self, outcome: Outcome, progress: Progress) -> list[FileDifference]:
        """Makes what the file says otherwise the cause where its side, the last one, deviates; all differences."""
        deviates = outcome.list_deviating(outcome.asked[-1].name)
        if self.conversion is None:
            # What stays below a limit on these inputs may not on others.
            rewritten = self.rewritten
            if any(n.operator in _LIMITED for n in self.first.nodes if n.name in rewritten):
                rewritten = frozenset()
            differences = [
                replace(d, is_rewriting=True) if d.node in rewritten else d
                for d in list_file_differences(*self._bind(outcome.network, self.orders.straight))
            ]
            asks = deviates and any(d.is_rounding for d in differences)
            blame_file(outcome, differences, self._judge_alone(outcome, progress) if asks else None)
            return differences
        odd = list_odd_weights(outcome.network, self.network)
        if deviates:
            blame_conversion(outcome, self.network, self.conversion, self._judge_alone(outcome, progress), odd)
        said = [FileDifference("", self.conversion.cause, f"the other file {self.conversion.says}")]
        return said + [FileDifference(name, CauseCode.OTHER_OPERANDS, say_odd_weights()) for name in odd]

    def _judge_alone(self, outcome: Outcome, progress: Progress) -> list[str] | None:
        """The file's units in which the engine does not compute what the file says; None if not known."""
        runner = outcome.asked[-1].runner
        assert isinstance(runner, OtherFileRunner)
        side = Asked(runner.runner.text, runner.runner)
        heard = prefix_progress(progress, "the other file by itself: ")
        own = judge_network(self.network, runner.take_inputs(self.fed), [side], heard)
        beyond = [unit.unit.name for unit in own.list_deviating(side.name)]
        is_known = side.observer is not None and all(u.is_judged for u in own.judged)
        return beyond if beyond or is_known else None

    def list_sentences(self, differences: Sequence[FileDifference]) -> list[str]:
        """What is said of both files."""
        sequence = [say_other_sequence(self.orders.products)] if self.orders.products else []
        first = next((n.name for n in self.first.nodes if n.name in self.rewritten), None)
        sequence += [] if first is None else [say_rewritten(first, len(self.rewritten))]
        return sequence if sequence and not differences else [*sequence, *list_sentences(differences)]
