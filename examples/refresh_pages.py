"""Runs every command that README and docs show and puts what it prints today in place of what stands there.

A block that ends in `...` keeps as many paragraphs as it has. `make pages`; look at the difference before committing.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```console\n\$ (.*?(?<!\\))\n(.*?)^```", re.DOTALL | re.MULTILINE)
WIDTH = "96"
MORE = "  ..."


def run(command: str) -> str:
    """What a command prints on standard output, piped, at the width of the pages."""
    words = shlex.split(command.replace("\\\n", " "))
    environment = {**os.environ, "COLUMNS": WIDTH}
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    if not done.stdout:
        raise SystemExit(f"{command}: {done.stderr.strip()}")
    return done.stdout.rstrip("\n")


def refresh(block: re.Match[str]) -> str:
    """The block with today's output."""
    command, shown = block[1], block[2].rstrip("\n")
    printed = run(command)
    if shown.endswith(MORE):
        paragraphs = shown.removesuffix(MORE).rstrip("\n").split("\n\n")
        last = len(paragraphs[-1].splitlines())
        kept = printed.split("\n\n")[: len(paragraphs)]
        kept[-1] = "\n".join(kept[-1].splitlines()[:last])
        printed = "\n\n".join(kept) + f"\n{MORE}"
    return f"```console\n$ {command}\n{printed}\n```"


def main() -> None:
    """Rewrites the pages whose blocks changed."""
    for page in PAGES:
        text = page.read_text()
        fresh = BLOCK.sub(refresh, text)
        if fresh != text:
            page.write_text(fresh)
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
