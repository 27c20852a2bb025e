"""Networks sealed on an engine, then executed without it: units and outputs that have the engine's bits.

`python benchmarks/seal_runs.py [--on ENGINE] [--write docs/seal_runs.md] [FILE.onnx ...]`. Without files, the networks
of `built_networks.py`. Each is fed inputs that the seal has not seen.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from pathlib import Path

import numpy as np
from built_networks import NETWORKS, export_network

import samebits
from samebits.errors import SamebitsError
from samebits.machine import describe_machine
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_runners import open_model_runner
from samebits.networks.onnx_reading import read_onnx

SEED = 97
ABOUT = """# Networks executed without their engine

`samebits seal FILE.onnx --on ENGINE` keeps how every unit of a network is computed; `samebits run` executes that. Here
each network was sealed, and then executed on inputs that the seal had not seen. `python benchmarks/seal_runs.py` writes
this page. All have seeded weights: those built in code, of timm (`timm_`) and of transformers (`hf_`), and three of the
first quantised by onnxruntime (`q_`).

What is missed: products of two computed values in ViT and Swin, into which the engine probably folds the scales before
them, and three transposed convolutions of the quantised U-Net, whose operands onnxruntime rounds to 8 bits (`samebits
compare` says so)."""


def run_one(path: Path, on: str) -> dict[str, object]:
    """One network's row."""
    began = time.monotonic()
    sealed = samebits.seal(path, on, time_limit_s=600)
    seal_s = time.monotonic() - began
    model = sealed.model
    assert model is not None
    network = read_onnx(path)
    fed = make_inputs(network, SEED, sizes={n: tuple(s) for n, s in model.sizes.items() if n in network.inputs})
    with contextlib.closing(open_model_runner(on, time_limit_s=600)) as runner:
        wanted = runner.run_network(network, fed, [], list(network.outputs), {})
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.npz")
        found = samebits.run(sealed, fed, model=path, output=out)
        with np.load(out) as stored:
            same = sum(stored[name].tobytes() == np.asarray(wanted[name]).tobytes() for name in network.outputs)
    return {
        "network": path.stem, "operations": len(network.nodes), "units": len(model.steps),
        "to the bit": sum(step.replay.is_whole for step in model.steps),
        "outputs": len(network.outputs), "equal": same,
        "said exact": sum(output.is_exact for output in found.outputs),
        "seal s": round(seal_s), "run s": round(found.seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Runs all networks and prints or writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--on", default="onnxruntime")
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        files = list(given.files)
        if not files:
            for name in NETWORKS:
                files.append(Path(folder, f"{name}.onnx"))
                export_network(name, str(files[-1]))
        for path in files:
            try:
                rows.append(run_one(path, given.on))
            except SamebitsError as error:
                rows.append({"network": path.stem, "operations": f"{type(error).__name__}: {str(error)[:80]}"})
            print(rows[-1], flush=True)
    whole = sum(row.get("equal") == row.get("outputs") and "equal" in row for row in rows)
    columns = list(rows[0])
    lines = [
        ABOUT, "", f"Measured with samebits {samebits.__version__} on {describe_machine()}: {given.on}.", "",
        f"All outputs have the engine's bits in {whole} of {len(rows)} networks.", "",
        "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns),
        *("| " + " | ".join(str(row.get(column, "")) for column in columns) + " |" for row in rows), "",
    ]  # fmt: skip
    if given.write:
        given.write.write_text("\n".join(lines))
    print("\n".join(lines[4:]))


if __name__ == "__main__":
    main()
