"""Sound engines on trained networks: is any of them called at fault? `python benchmarks/fault_free.py --write PAGE`

Networks of published packages, as `make networks` takes them, on engines with several settings and two sets of inputs
each. No engine has a fault put into it; what is called `downgrade` or `wrong` is listed, to be confirmed otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pages import write_page
from published_networks import LIMIT_S, list_networks, run_compare

# One run for each: settings that choose other kernels, graphs and numbers of threads.
RUNS: tuple[tuple[str, ...], ...] = (
    (
        "--on", "onnxruntime", "--on", "onnxruntime:optimization=disable", "--on", "onnxruntime:threads=1",
        "--on", "openvino", "--on", "openvino:EXECUTION_MODE_HINT=ACCURACY", "--on", "openvino:INFERENCE_NUM_THREADS=1",
    ),
    ("--on", "onnxruntime:optimization=basic", "--on", "openvino", "--seed", "1"),
)  # fmt: skip
ABOUT = """Trained networks of published packages ([list](published.md)), each on ONNX Runtime and OpenVINO with several
settings and on two sets of inputs. Nobody put a fault into any of these sides. What is called `downgrade` or `wrong` is
listed with its cause. Sums in 16 bits: plain NumPy's sums of the codes differ from what onnxruntime returned in 3 and
15 outputs of the first 40 products of both files. Subnormals: the files hold 255,958 and 241 such weights."""


def survey(wanted: Sequence[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Package, file and each side of every run."""
    for package, file, path in list_networks(wanted):
        for on in RUNS:
            ran = run_compare([path.name, *on, *package.files[file]], path.parent, LIMIT_S)
            sides = ran.finding["sides"] if ran.finding else []
            print(f"{package.name} {file}: {len(sides)} sides, {ran.seconds:.0f} s, {ran.said[:80]}", file=sys.stderr)
            yield from ((package.name, file, side) for side in sides)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", help="names of packages; all by default")
    parser.add_argument("--write", type=Path, help="the page to write")
    given = parser.parse_args()
    rows = list(survey(given.packages))
    verdicts = Counter(side["failure"]["kind"] if side["failure"] else side["verdict"] for _, _, side in rows)
    files = len({(package, file) for package, file, _ in rows})
    lines = [
        f"{len(rows)} sides of {files} networks, on {os.cpu_count()} cores: "
        + ", ".join(f"{count} `{verdict}`" for verdict, count in verdicts.most_common())
        + ".",
        "",
        "| package | file | side | verdict | cause |",
        "|---|---|---|---|---|",
        *(
            f"| {package} | {file} | {side['name']} | {side['verdict']} | {side['cause']} |"
            for package, file, side in rows
            if side["verdict"] not in ("rounding", "identical")
        ),
    ]
    text = "\n".join(lines)
    print(text)
    if given.write is not None:
        write_page(given.write, "Sound sides", ABOUT, text)


if __name__ == "__main__":
    main()
