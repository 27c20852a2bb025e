"""Attention of models on every engine here: python benchmarks/attention_survey.py [--seeds N] [--write FILE].

Every engine is asked on exact integers and on random numbers; a table says what each is, and how far from the truth.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runners import open_runner
from samebits.findings import is_agreement
from samebits.problems.attention import parse_attention
from samebits.problems.catalog.attentions import list_attentions
from samebits.questions.formula_comparing import compare_formula

ON = (
    "numpy", "torch", "torch:attention_as=math", "torch:compile=on", "onnxruntime", "onnxruntime:attention_as=pattern",
    "onnxruntime:attention_as=multi_head", "onnxruntime:attention_as=group_query", "openvino",
    "openvino:INFERENCE_PRECISION_HINT=f32", "jax", "tensorflow",
)  # fmt: skip


def main() -> None:
    """Asks, prints, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    engines = [e for e in ON if ENGINES[e.partition(":")[0]].find_version() is not None]
    runners = [open_runner(engine) for engine in engines]
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    outputs, beyond, versions = 0, 0, {}
    for name, text in list_attentions().items():
        for seed in range(options.seeds):
            found = compare_formula(parse_attention(text), runners, seed=seed, calls=1)
            for engine, side in zip(engines, found.sides, strict=True):
                versions[engine.partition(":")[0]] = side.version
                if side.failure is not None:
                    cells[name][engine] = "-" if side.failure.kind == "unsupported" else side.failure.kind
                    continue
                assert side.error is not None
                if is_agreement(side.verdict):
                    outputs += found.outputs
                    beyond += (side.error.max_over_bound or 0.0) > 1.0
                share = side.error.max_over_likely or 0.0
                said = side.verdict if side.cause is None else f"{side.verdict}: {side.cause}"
                cells[name].setdefault(engine, f"{said}, {share:.2g}")
                print(f"{name:16} {engine:40} {said:50} {share:.3g} {side.says or ''}", flush=True)
    for runner in runners:
        runner.close()
    lines = [
        "| problem | " + " | ".join(f"`{engine}`" for engine in engines) + " |",
        "|---" * (len(engines) + 1) + "|",
        *(
            f"| {name} | " + " | ".join(cells[name].get(engine, "") for engine in engines) + " |"
            for name in list_attentions()
        ),
    ]
    said = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    summary = f"{outputs:,} outputs of sides within rounding, {beyond} of these sides beyond the bound; {said}."
    print(summary)
    if options.write:
        head = "# Attention on the engines at hand\n\n"
        about = (
            "Written by `python benchmarks/attention_survey.py --write docs/attention_survey.md`. In each cell the\n"
            "verdict, the cause if one was named, and the largest error as a share of the likely bound;\n"
            "`-`: the engine's operator has no such thing.\n\n"
        )
        problems = "\n".join(f"- {name}: `{text}`" for name, text in list_attentions().items())
        table = "\n".join(lines)
        options.write.write_text(f"{head}{about}{summary}\n\n{table}\n\n{problems}\n")


if __name__ == "__main__":
    main()
