"""Two examples for each command's help."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, str]] = {
    "compare": (
        'samebits compare "conv1d x=1x1x7 w=1x1x5 bias" --on torch --on onnxruntime',
        "samebits compare net.onnx --on onnxruntime --on openvino --fix",
    ),
    "explain": ("samebits explain case.npz --like torch", "samebits explain xla.log --json"),
    "report": ("samebits report found.json -o found.html", "samebits report found.json --markdown"),
    "profile": (
        'samebits profile torch "conv2d x=1x64x56x56 w=64x64x3x3 padding=1"',
        'samebits profile jax "linear x=4x768 w=768x768" --svg order.svg',
    ),
    "trace": ("samebits trace -o a.trace python train.py", "samebits trace -o b.trace python train.py --seed 1"),
    "diff": ("samebits diff a.trace b.trace", "samebits diff a.trace b.trace --capture case.npz"),
    "pick": (
        'samebits pick "conv2d x=1x64x56x56 w=64x64x3x3 padding=1" -o samebits.lock',
        "samebits pick net.onnx --on onnxruntime --on openvino --max-ulp 4",
    ),
    "sweep": (
        'samebits sweep "linear x={1..256}x768 w=768x768" --on torch --on onnxruntime',
        "samebits sweep catalog --on onnxruntime --on jax -o tonight.parquet --resume",
    ),
    "reduce": (
        'samebits reduce "conv2d x=3x1x7x3 w=16x1x2x2 stride=1x3" --on tensorflow -o fault.py',
        "samebits reduce case.npz --on onnxruntime --on onnxruntime:python=/venvs/old/bin/python --markdown",
    ),
    "doctor": ("samebits doctor", "samebits doctor --on torch:ssh=gpu-box"),
}


def show_examples(command: str) -> str:
    """The examples of a command as they stand under its help, one to a line."""
    # Lines after \b are not joined.
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])
