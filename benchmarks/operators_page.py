"""docs/operators.md: how each of ONNX's operators is judged in a network, from the tables that judge it."""

from __future__ import annotations

from pathlib import Path

import onnx

from samebits.networks.deciding_operations import DECISIONS
from samebits.networks.function_bodies import has_body
from samebits.networks.network import Node
from samebits.networks.operations import KINKED, MONOTONE, MOVES, SMOOTH, find_rule, is_known, is_random
from samebits.networks.optimised_operators import NORMALIZATIONS, OPTIMISED
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.quantised_operators import OF_WORDS, QUANTISED
from samebits.networks.recurrent_operations import RECURRENT
from samebits.networks.scattering_operations import SCATTERS
from samebits.networks.sequence_operators import SEQUENCES
from samebits.networks.unrolled_loops import LOOPS

ABOUT = """How a network's operators are judged: `make operators` writes this page from the tables in
`src/samebits/networks`. An operator that is not judged stays a unit of its own, and so does a form
of one that has no bound, such as RoiAlign of the largest value."""
OPENCL = "OpenCL's specification, section 7.4"
HIGHAM = "Higham, Accuracy and Stability of Numerical Algorithms, chapters 3 and 4"


def describe(name: str, opset: int) -> tuple[str, str]:
    """How an operator is judged, and the source of its bound."""
    stored = onnx.helper.make_node(name, [], [])
    node = Node(name, name, (), (), {}, stored)
    if name in OF_WORDS:
        return "as the plain product between DequantizeLinear and QuantizeLinear", "theirs"
    if name in SEQUENCES:
        return "exact: as slices and joins, where the file says which part is taken", "exact"
    if name == "Constant":
        return "exact: it stands in the file", "exact"
    if name in LOOPS:
        return "as its rounds one after the other, up to 64", "theirs"
    if name == "If":
        return "as the branch that is taken", "theirs"
    if name in PRODUCTS:
        return "correctly rounded truth; sums in any order", "bounds of sums (truth.md)"
    if name in RECURRENT:
        return "step by step, by its products and functions", HIGHAM
    if is_random(name):
        return "not judged: it draws its values", "-"
    if name in DECISIONS:
        return "exact for what was fed", "exact"
    if name in SCATTERS:
        return "exact: it moves values; with a reduction value and roundings", HIGHAM
    if name in MOVES:
        return "exact: it moves values", "exact"
    if name in (*SMOOTH, *KINKED, *MONOTONE):
        return "value and slope", OPENCL
    if find_rule(node, opset) is not None:
        return "value and roundings", HIGHAM
    if has_body(node, opset):
        return "by the operators that ONNX defines it by", "theirs"
    if is_known(node, opset):
        return "exact: it follows from sizes or truth values", "exact"
    schema = onnx.defs.get_schema(name, opset, "")
    floats = {"tensor(float)", "tensor(float16)", "tensor(double)", "tensor(bfloat16)"}
    fed = {t for i in schema.inputs for t in i.types}
    if schema.inputs and not fed & floats:
        return "exact where it takes whole numbers only", "exact"
    return "not judged", "-"


def write_table() -> str:
    """The table of all operators of the newest opset."""
    opset = onnx.defs.onnx_opset_version()
    names = sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""})
    rows = [(name, *describe(name, opset)) for name in names if onnx.defs.has(name, opset, "")]
    judged = sum(not how.startswith("not judged") for _, how, _ in rows)
    lines = [
        f"{judged} of {len(rows)} operators of opset {opset} are judged.",
        "",
        "| operator | how it is judged | source of the bound |",
        "|---|---|---|",
        *(f"| {name} | {how} | {source} |" for name, how, source in rows),
    ]
    return "\n".join(lines) + "\n"


def write_others() -> str:
    """The operators that onnxruntime's optimizer and quantizer write, by what they are written out in."""
    names = sorted({*OPTIMISED, *QUANTISED})
    lines = [
        "## ONNX Runtime's own",
        "",
        "These stand in files that ONNX Runtime's optimizer or quantizer wrote. Each is read as the ONNX operators",
        "that compute the same; one with a past or a rotation of its own is not judged, GroupQueryAttention aside.",
        "",
        f"{', '.join(names)}; also {' and '.join(sorted(NORMALIZATIONS))} in opsets that do not have them.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    page = Path(__file__).parent.parent / "docs" / "operators.md"
    page.write_text(f"# Operators of networks\n\n{ABOUT}\n\n{write_table()}\n{write_others()}")


if __name__ == "__main__":
    main()
