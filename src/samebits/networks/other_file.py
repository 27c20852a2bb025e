"""Another file of the same network as a side: run, judged like every side, and compared with the first file."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from samebits.engines.runner import Runner
from samebits.errors import ModelError
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.networks.file_differences import FileDifference
from samebits.networks.model_runners import ModelRunner, OtherFileRunner, is_onnx_engine, open_model_runner
from samebits.networks.network import Network
from samebits.networks.onnx_reading import read_onnx
from samebits.networks.outcome import Asked, Outcome

_MOST_DIFFERENCES = 12
_ROUNDED = CauseCode.REDUCED_PRECISION_OPERANDS


def take_other(network: Network, against: str | Path | Network) -> Network:
    """Another file of the network; raises ModelError where it does not take and return the same."""
    other = against if isinstance(against, Network) else read_onnx(against)
    if set(other.inputs) != set(network.inputs) or set(other.outputs) != set(network.outputs):
        taken = f"{', '.join(other.inputs)} -> {', '.join(other.outputs)}"
        raise ModelError(
            f"{other.name} is no other file of this network: it has {taken[:120]} in place of"
            f" {', '.join(network.inputs)} -> {', '.join(network.outputs)}"[:300]
        )
    return other


def open_other(
    other: Network, on: Sequence[str | ModelRunner | Runner], opened: contextlib.ExitStack, time_limit_s: float
) -> Asked:
    """The other file, run by the first engine that reads ONNX; by onnxruntime where none does."""
    reads = [t for t in on if isinstance(t, str) and is_onnx_engine(t)]
    runner = open_model_runner(reads[0] if reads else "onnxruntime", time_limit_s=time_limit_s)
    opened.callback(runner.close)
    own = OtherFileRunner(runner, other)
    return Asked(own.text, own)


def blame_file(outcome: Outcome, differences: Sequence[FileDifference]) -> None:
    """Where a unit of the other file deviates and its nodes stand otherwise in that file, that is the cause."""
    side = outcome.asked[-1].name
    for unit in outcome.list_deviating(side):
        names = {outcome.network.nodes[p].name for p in unit.unit.places}
        own = next((d for d in differences if d.node in names), None)
        if own is None:
            continue
        judged = unit.sides[side]
        said = Evidence("structure", own.says)
        is_wrong = judged.verdict == "undecided" and own.cause != _ROUNDED
        level = judged.cause_certainty if judged.cause == own.cause else "statistics"
        unit.sides[side] = replace(
            judged,
            verdict="wrong" if is_wrong else judged.verdict,
            certainty="statistics" if is_wrong else judged.certainty,
            cause=own.cause,
            cause_certainty=level,
            says=f"differs in the file: {own.says}",
            evidence=(said, *judged.evidence),
        )


def list_sentences(differences: Sequence[FileDifference]) -> list[str]:
    """What the two files have otherwise, as a person is told."""
    says = [f"{d.node}: {d.says}" if d.node else d.says for d in differences[:_MOST_DIFFERENCES]]
    if len(differences) > len(says):
        says.append(f"and {len(differences) - len(says)} more differences of the two files")
    return says or ["the two files do not differ in any node or constant"]
