"""Which processors an engine gives the same bits on: every engine at hand, run as each of them, on the same problems.

    python benchmarks/processors.py [ENGINE ...]

Prints a Markdown table per engine: the processors in classes of equal bits, on how many problems. What a processor is
lies with qemu's user mode (docs/howto/processors.md). Some minutes an engine.
"""

import contextlib
import hashlib
import sys
import time
from collections import Counter

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runners import open_runner
from samebits.errors import EngineFailure, EngineMissingError
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

MODELS = ("Nehalem", "SandyBridge", "Haswell", "Skylake-Client", "EPYC", "EPYC-Milan", "native")
PROBLEMS = (
    "linear x=1x256 w=64x256", "linear x=16x768 w=96x768 bias", "linear x=37x100 w=50x100", "matmul x=64x64 w=64x64",
    "matmul x=5x1000 w=1000x24", "linear x=8x4096 w=16x4096", "conv2d x=1x3x32x32 w=16x3x3x3 stride=2 padding=1",
    "conv2d x=1x16x14x14 w=16x16x3x3 padding=1", "conv2d x=1x32x14x14 w=32x1x3x3 padding=1 groups=32",
    "conv2d x=2x64x7x7 w=32x64x1x1", "conv2d x=1x8x20x20 w=8x8x5x5 bias", "conv1d x=1x16x100 w=32x16x3 padding=1",
)  # fmt: skip


def list_bits(engine: str, model: str) -> dict[str, str]:
    """The bits of every problem that the engine takes there."""
    found: dict[str, str] = {}
    with contextlib.closing(open_runner(f"{engine}{',' if ':' in engine else ':'}cpu={model}")) as runner:
        for text in PROBLEMS:
            problem = parse_problem_text(text)
            try:
                result = runner.run(problem, make_normal(problem))
            except EngineFailure as failure:
                if failure.kind != "unsupported":
                    print(f"{engine} on {model}, {text}: {failure}", file=sys.stderr)
                continue
            found[text] = hashlib.sha256(result.tobytes()).hexdigest()
    return found


def main() -> None:
    """A table for each engine."""
    for engine in sys.argv[1:] or [name for name, spec in ENGINES.items() if spec.find_version()]:
        begun = time.monotonic()
        bits: dict[str, dict[str, str]] = {}
        for model in MODELS:
            print(f"{engine}: {model} ...", file=sys.stderr)
            try:
                bits[model] = list_bits(engine, model)
            except (EngineFailure, EngineMissingError) as failure:
                print(f"{engine} on {model}: {failure}", file=sys.stderr)
        counted: Counter[str] = Counter()
        for text in PROBLEMS:
            classes: dict[str, list[str]] = {}
            for model, own in bits.items():
                if text in own:
                    classes.setdefault(own[text], []).append(model)
            if classes:
                counted[" / ".join(", ".join(models) for models in classes.values())] += 1
        print(f"\n{engine}, {time.monotonic() - begun:.0f} s\n\n| classes of equal bits | problems |\n|---|---|")
        for said, count in counted.most_common():
            print(f"| {said} | {count} |", flush=True)


if __name__ == "__main__":
    main()
