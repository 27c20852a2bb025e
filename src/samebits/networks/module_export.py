"""Torch modules, exported programs and LiteRT files as networks: read once, in an engine's own process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.workers.process import WorkerRunner
from samebits.errors import EngineFailure, EngineMissingError, ModelError
from samebits.networks.network import Network, Program
from samebits.networks.onnx_reading import read_onnx
from samebits.networks.quantising_operations import COARSE

_EXPORTER, _LITE = "torch", "litert"


@dataclass(frozen=True)
class Exported:
    """A network, what it was exported with, and what its exporter has to say."""

    network: Network
    inputs: Mapping[str, np.ndarray]
    notes: tuple[str, ...]


def export_module(text: str, folder: Path, *, time_limit_s: float, opens_batch: bool = False) -> Exported:
    """The network that torch's own exporter makes of a module, and its example inputs; its batch open if asked for.

    The folder holds the program and the model; it must last as long as the network is run. Raises ModelError where the
    module cannot be loaded or exported.
    """
    file = text if text.endswith(".pt2") else text.rpartition(":")[0]
    if not Path(file).is_file():
        raise ModelError(f"{file}: no such file")
    try:
        runner = open_runner(_EXPORTER, time_limit_s=time_limit_s)
    except EngineMissingError as error:
        raise ModelError(f"{text}: exporting a module needs torch: {error}") from None
    try:
        assert isinstance(runner, WorkerRunner)
        said, inputs = runner.export_program(text, str(folder), opens_batch=opens_batch)
    except EngineFailure as error:
        raise ModelError(f"{text} cannot be exported: {error}") from None
    finally:
        runner.close()
    network = read_onnx(folder / "model.onnx")
    program = Program(str(folder / "program.pt2"), said.kind)
    return Exported(
        replace(network, name=text, program=program, ends=(*network.ends, *said.layers)),
        inputs,
        tuple(said.notes),
    )


def read_lite(text: str, folder: Path, *, time_limit_s: float) -> Network:
    """The network that a LiteRT file says, in operators of ONNX; LiteRT runs the file itself.

    Raises ModelError where it cannot be read.
    """
    if not Path(text).is_file():
        raise ModelError(f"{text}: no such file")
    try:
        runner = open_runner(_LITE, time_limit_s=time_limit_s)
    except EngineMissingError as error:
        raise ModelError(f"{text}: reading a LiteRT file needs LiteRT: {error}") from None
    try:
        assert isinstance(runner, WorkerRunner)
        runner.export_program(str(Path(text).resolve()), str(folder))
    except EngineFailure as error:
        raise ModelError(f"{text} cannot be read: {error}") from None
    finally:
        runner.close()
    network = read_onnx(folder / "model.onnx")
    coarse = json.loads((folder / "coarse.json").read_text(encoding="utf-8"))
    nodes = tuple(
        replace(node, attributes={**node.attributes, COARSE: coarse[node.name]}) if node.name in coarse else node
        for node in network.nodes
    )
    return replace(network, name=text, nodes=nodes, program=Program(str(Path(text).resolve()), "tflite"))
