"""Writes docs/compare.svg: the terminal after `samebits compare examples/length7.npz` on all engines that are here."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from samebits.engines.registry.known_engines import ENGINES
from samebits.questions.compare.comparing import compare
from samebits.questions.compare.comparison_report import show_comparison

ROOT = Path(__file__).parent.parent
engines = [name for name, spec in ENGINES.items() if spec.find_version()]
engines = ["openvino:INFERENCE_PRECISION_HINT=f32" if e == "openvino" else e for e in engines]
console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True, highlight=False)
console.print("$ samebits compare examples/length7.npz " + " ".join(f"--on {e}" for e in engines), style="dim")
show_comparison(compare(str(ROOT / "examples" / "length7.npz"), engines), console)
svg = console.export_svg(title="samebits compare")
# Rich's picture loads a font from the network; a monospaced one that is there will do.
svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "monospace")
(ROOT / "docs" / "compare.svg").write_text(svg)
