"""Networks without a fault between engines: verdicts, how much is replayed, and whether settings end what deviates.

`make models` (also --only GLOB, --parts verdicts,fixes, --write FILE). What deviates must stand in
`known_deviations/networks/`; what does not is listed, and so is an entry there that matches nothing any more.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import built_networks
import numpy as np
from operator_networks import OPERATOR_NETWORKS
from pages import write_page
from survey_tables import ROOT

from samebits.findings import Verdict, is_agreement
from samebits.findings.model_schema import ModelComparison, ModelSide
from samebits.networks.model_comparing import compare_model
from samebits.networks.model_inputs import make_inputs
from samebits.networks.network import Network
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.questions.list.table_changes import KnownDeviation, load_known

ABOUT = """The networks of `benchmarks/built_networks.py` as ONNX files and as torch modules, those of
`benchmarks/keras_networks.py`, and networks of one or two operators on which an engine was found to deviate
(`benchmarks/operator_networks.py`), whole, on every engine that runs them. Verdicts; how many units with products are
replayed to the last bit from what they were fed; what deviates, and why; and for sides that one setting can cure,
whether `--fix` finds it and the changed side is within rounding on other inputs. `make models` writes this page."""
# What Keras's own networks are; the module needs Keras on some backend, this list does not.
KERAS_NETWORKS = ("mobilenet_v2", "resnet50", "efficientnet_b0", "transformer", "unet", "speech", "volume")
OPENVINO_PLAIN = "openvino:INFERENCE_PRECISION_HINT=f32"
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """One side of one network."""

    network: str
    side: ModelSide
    units: int
    known: KnownDeviation | None


@dataclass(frozen=True)
class Curable:
    """A network, what it is fed (nothing: what it came with), and two sides; one setting makes the first deviate."""

    network: str
    model: str | Network
    inputs: Mapping[str, np.ndarray]
    sides: tuple[str, str]


@dataclass(frozen=True)
class FixRow:
    """What was claimed of a side that one setting can cure, and whether that holds on other inputs."""

    network: str
    side: str
    before: Verdict
    fix: str
    changes: int
    holds: bool


def survey_verdicts(names: Sequence[str], folder: Path, deviations: Sequence[KnownDeviation]) -> Iterator[Row]:
    """Every network on every engine that runs it whole."""
    for name in names:
        file, module = str(folder / f"{name}.onnx"), f"{_FOLDER / 'built_networks.py'}:{name}"
        yield from note(name, compare_model(file, ["onnxruntime", OPENVINO_PLAIN], replay=True), deviations)
        yield from note(name, compare_model(file, ["onnxruntime", "openvino"]), deviations, only="openvino")
        yield from note(name, compare_model(module, ["torch"], replay=True), deviations)
        yield from note(name, compare_model(module, ["torch:compile=on"]), deviations)
    for name in KERAS_NETWORKS:
        module = f"{_FOLDER / 'keras_networks.py'}:{name}"
        found = compare_model(module, ["tensorflow", "jax", "torch", "onnxruntime"], replay=True)
        yield from note(f"keras/{name}", found, deviations)
    for name, build in OPERATOR_NETWORKS.items():
        model, inputs = build()
        sides = ["onnxruntime", "onnxruntime:optimization=disable", OPENVINO_PLAIN]
        yield from note(name, compare_model(make_network(model, name), sides, inputs=inputs), deviations)


def note(name: str, found: ModelComparison, deviations: Sequence[KnownDeviation], *, only: str = "") -> Iterator[Row]:
    """The rows of a finding, told as they come; of the side `only` where one is named."""
    total = sum(1 for unit in found.units if unit.problem)
    for side in found.sides:
        if only and side.name != only:
            continue
        known = None
        if not is_agreement(side.verdict):
            known = next((d for d in deviations if d.fits(side.name, name, side.verdict)), None)
        row = Row(name, side, total, known)
        print(name, side.name, side.verdict, side.replayed, total, "" if known else "*", file=sys.stderr, flush=True)
        yield row


def list_curable(names: Sequence[str], folder: Path) -> Iterator[Curable]:
    """Sides that one setting can cure."""
    for name in names:
        file, module = str(folder / f"{name}.onnx"), f"{_FOLDER / 'built_networks.py'}:{name}"
        yield Curable(name, file, make_inputs(read_onnx(file), 0), ("openvino", "onnxruntime"))
        yield Curable(name, module, {}, ("torch:fp32_precision=bf16", "onnxruntime"))
    for name in KERAS_NETWORKS:
        module = f"{_FOLDER / 'keras_networks.py'}:{name}"
        yield Curable(f"keras/{name}", module, {}, ("tensorflow:env.ONEDNN_DEFAULT_FPMATH_MODE=BF16", "jax"))
    model, given = OPERATOR_NETWORKS["zeros_before_a_maximum"]()
    yield Curable("zeros_before_a_maximum", make_network(model, "zeros"), given, ("onnxruntime", OPENVINO_PLAIN))


def survey_fixes(names: Sequence[str], folder: Path) -> Iterator[FixRow]:
    """Is a setting found that ends what one setting did?"""
    for case in list_curable(names, folder):
        found = compare_model(case.model, list(case.sides), inputs=case.inputs or None, fix=True)
        before: Verdict = next(s.verdict for s in found.sides if s.name == case.sides[0])
        if is_agreement(before):
            # This processor does not do what the setting allows.
            continue
        best = next((f for f in found.fixes if f.verified and f.text), None)
        holds = False
        if best is not None:
            rng = np.random.default_rng(77)
            others = {n: (a * rng.uniform(0.5, 1.5, a.shape)).astype(a.dtype) for n, a in case.inputs.items()}
            sides = [str(best.text), *best.together_with, case.sides[1]]
            again = compare_model(case.model, sides, inputs=others or None)
            holds = all(is_agreement(s.verdict) for s in again.sides)
        text, changes = ((best.text or "", best.changes or 0)) if best else ("", 0)
        row = FixRow(case.network, case.sides[0], before, text, changes, holds)
        print("fix", *row.__dict__.values(), file=sys.stderr, flush=True)
        yield row


def make_verdict_tables(rows: Sequence[Row], deviations: Sequence[KnownDeviation], *, complete: bool) -> list[str]:
    """One row a network and side; what is known of those that deviate; what is not."""
    lines = ["| network | engine | verdict | units with products replayed whole |", "|---|---|---|---|"]
    for r in rows:
        replayed = "" if r.side.replayed is None else f"{r.side.replayed} of {r.units}"
        verdict = f"no result: {r.side.failure.says[:60]}" if r.side.failure else r.side.verdict
        lines.append(f"| {r.network} | {r.side.name} | {verdict} | {replayed} |")
    asked = [r for r in rows if r.side.replayed is not None]
    done, total = sum(r.side.replayed or 0 for r in asked), sum(r.units for r in asked)
    lines += [
        "",
        f"{done} of {total} units ({done / max(total, 1):.1%}) are replayed whole.",
        "",
        "Known deviations:",
        "",
    ]
    seen = [r.known for r in rows]
    lines += [
        f"- {d.engine} on {', '.join(d.problems)}: {d.reason} ([report]({d.link}))" for d in deviations if d in seen
    ]
    new = [r for r in rows if not is_agreement(r.side.verdict) and r.known is None]
    lines += ["", f"Deviations that are not known: {len(new)}."]
    lines += [f"- {r.side.name} on {r.network}: {r.side.verdict}" for r in new]
    gone = [d for d in deviations if d not in seen] if complete else []
    lines += [f"- entry without a match: {d.engine}, {', '.join(d.problems)}" for d in gone]
    return lines


def make_fix_table(rows: Sequence[FixRow]) -> list[str]:
    """One row a side that one setting can cure."""
    lines = ["## Fixes", "", "| network | side | before | fix | holds on other inputs |", "|---|---|---|---|---|"]
    lines += [
        f"| {r.network} | {r.side} | {r.before} | {r.fix or 'none'} | {'yes' if r.holds else 'no'} |" for r in rows
    ]
    fixed = sum(bool(r.fix) and r.holds for r in rows)
    return [*lines, "", f"{fixed} of {len(rows)} are cured, {sum(r.changes == 1 for r in rows)} by one change."]


def main() -> int:
    """Compares all networks; writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*")
    parser.add_argument("--parts", default="verdicts,fixes")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    names = [n for n in built_networks.NETWORKS if fnmatch.fnmatch(n, given.only)]
    deviations = load_known(ROOT / "known_deviations" / "networks" / "cpu_engines.toml")
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            built_networks.export_network(name, str(Path(folder) / f"{name}.onnx"))
        if "verdicts" in given.parts:
            rows = list(survey_verdicts(names, Path(folder), deviations))
            lines += make_verdict_tables(rows, deviations, complete=given.only == "*")
        if "fixes" in given.parts:
            lines += ["", *make_fix_table(list(survey_fixes(names, Path(folder))))]
    page = "\n".join(lines).strip()
    print(page)
    if given.write:
        write_page(given.write, "Networks between engines", ABOUT, page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
