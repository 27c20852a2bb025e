"""What is on this machine (schema samebits.inventory/1)."""

from __future__ import annotations

from typing import Literal

import msgspec


class Variable(msgspec.Struct, frozen=True):
    """A setting that decides bits: its value here, where that comes from, and what it does."""

    name: str
    value: str
    origin: Literal["environment", "default"]
    says: str


class EngineState(msgspec.Struct, frozen=True):
    """One engine: its version if installed, how to get it if not, and the settings it would run with.

    `takes` is what it runs whole: "problems", "ONNX", ".tflite", "torch" modules and "keras" models.
    """

    name: str
    version: str | None
    install: str
    settings: list[str]
    variables: list[Variable]
    takes: list[str] = []


class AskedEngine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that was named, or that a package brings, and was opened; `failure` says why it could not be."""

    text: str
    version: str | None = None
    device: str | None = None
    settings: dict[str, str] = {}
    failure: str | None = None
    brought_by: str | None = None


class LogReader(msgspec.Struct, frozen=True, kw_only=True):
    """A reader of logs that a package brings; `failure` says why it cannot be had."""

    name: str
    brought_by: str
    failure: str | None = None


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Engines, versions, processor features, threads and GPUs.

    `asked` are engines that were named, of any place; `plugins` and `log_readers` are what installed packages bring.
    `processors` are models that engines may be run as (`cpu=MODEL`), by the `emulator`.
    """

    schema: Literal["samebits.inventory/1"] = "samebits.inventory/1"
    samebits_version: str
    python: str
    platform: str
    processor: str
    features: list[str]
    cores: int
    memory_gib: float
    gpus: list[str] = []
    packages: dict[str, str]
    engines: list[EngineState]
    variables: list[Variable]
    asked: list[AskedEngine] = []
    plugins: list[AskedEngine] = []
    log_readers: list[LogReader] = []
    processors: list[str] = []
    emulator: str = ""
