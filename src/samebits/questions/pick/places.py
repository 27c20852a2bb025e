"""Where bits were seen: the engine's version, the processor, and variables that choose kernels."""

from __future__ import annotations

import os

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.runner import Identity
from samebits.questions.doctor.inventory import describe_processor
from samebits.questions.pick.pick_schema import Place
from samebits.sums.tiles.running import count_cores
from samebits.version import VERSION


def find_place(text: str, identity: Identity | None = None) -> Place:
    """This place for a text, without loading an engine; for an object that was given, by what it says of itself."""
    device = f"{describe_processor()}, {count_cores()} cores"
    if identity is not None:
        return Place(identity.version, device)
    runner = parse_runner_text(text)
    spec = ENGINES.get(runner.name)
    if spec is None:
        return Place(VERSION, device)
    variables = spec.load_class().variables
    fixed = [f"{n}={os.environ[n]}" for n in sorted(variables) if n in os.environ and n not in runner.environment]
    return Place(spec.find_version() or "not installed", ", ".join([device, *fixed]))
