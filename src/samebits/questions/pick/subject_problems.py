"""The problems of a subject: of one problem itself, of a model every convolution and product, each once."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ModelError, ProblemShapeError, SamebitsError
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_subject import is_model, is_module
from samebits.networks.module_export import export_module
from samebits.networks.network import Network, ValueType
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.networks.product_nodes import PRODUCTS, find_product
from samebits.numbers.format import FORMATS, numpy_dtype
from samebits.problems import Problem
from samebits.problems.case_file import Case
from samebits.problems.languages.any_language import read_subject
from samebits.progress import Progress
from samebits.regular_files import open_folder


def list_problems(
    subject: str | Path | Problem,
    *,
    gradients: bool,
    time_limit_s: float,
    progress: Progress,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> tuple[dict[Problem, list[str]], list[str]]:
    """Problems with the nodes that have them, and what was left out of a model. With `gradients` their gradients, too.

    `sizes` are those that a model leaves open.

    Raises SamebitsError for a subject that cannot be read.
    """
    if isinstance(subject, Problem) or not is_model(subject):
        read = subject if isinstance(subject, Problem) else read_subject(subject)
        problem = read.problem if isinstance(read, Case) else read
        found: dict[Problem, list[str]] = {problem: []}
        left_out: list[str] = []
    else:
        found, left_out = _list_of_model(subject, time_limit_s, progress, sizes)
    if gradients:
        for problem, nodes in list(found.items()):
            for gradient in list_gradients(problem):
                found.setdefault(gradient, []).extend(nodes)
    return found, left_out


def list_gradients(problem: Problem) -> list[Problem]:
    """The problems of a forward problem's gradients, for x and w; of matmul these are products themselves."""
    if problem.direction != "forward":
        return []
    plain = replace(problem, bias=False, then=None)
    if problem.kind != "matmul":
        return [replace(plain, direction="grad_input"), replace(plain, direction="grad_weight")]
    if len(problem.x) < 2 or len(problem.w) < 2:
        return []
    *batch, m, n = problem.y_shape
    k = problem.x[-1]
    # The gradient of weights that all batches share is summed over all of them.
    rows = (m * math.prod(batch),) if len(problem.w) == 2 else (m,)
    kept = () if len(problem.w) == 2 else tuple(batch)
    return [
        replace(plain, x=tuple(problem.y_shape), w=(*problem.w[:-2], n, k)),
        replace(plain, x=(*kept, k, *rows), w=(*kept, *rows, n)),
    ]


def _list_of_model(
    subject: str | Path, time_limit_s: float, progress: Progress, sizes: Mapping[str, tuple[int, ...]] | None
) -> tuple[dict[Problem, list[str]], list[str]]:
    with contextlib.ExitStack() as opened:
        if is_module(str(subject)):
            progress(f"exporting {str(subject)[:60]}", 0.0)
            folder = opened.enter_context(open_folder())
            network = export_module(str(subject), folder, time_limit_s=time_limit_s).network
        else:
            network = read_onnx(subject, time_limit_s=time_limit_s)
        fed = make_inputs(network, 0, sizes=sizes)
        network = settle_control_flow(network, fed, make_network)
        types = {**_fix_sizes(network, fed), **{n: _type_of(a) for n, a in network.constants.items()}}
        found: dict[Problem, list[str]] = {}
        left_out: list[str] = []
        for node in network.nodes:
            if node.operator not in PRODUCTS:
                continue
            try:
                given = [_stand_in(types.get(name)) if name else None for name in node.inputs]
                found.setdefault(find_product(node, given).problem, []).append(node.name)
            except SamebitsError as error:
                left_out.append(f"{node.name[:60]}: {error}")
    if not found:
        raise ModelError(f"{subject}: no convolution or product whose sizes are known")
    return found, left_out


def _fix_sizes(network: Network, fed: Mapping[str, np.ndarray]) -> Mapping[str, ValueType]:
    """The types of all values, with open sizes of the inputs fixed to those of random inputs."""
    if all(size is not None for type_ in network.inputs.values() for size in type_.shape):
        return network.types
    import onnx

    model: Any = onnx.ModelProto()
    model.CopyFrom(network.stored)
    for value in model.graph.input:
        if value.name in fed:
            for dim, size in zip(value.type.tensor_type.shape.dim, fed[value.name].shape, strict=True):
                dim.dim_value = size
    # What was inferred for open sizes is inferred again.
    del model.graph.value_info[:]
    return make_network(model, network.name).types


def _type_of(array: np.ndarray) -> ValueType:
    return ValueType(array.dtype.name, tuple(array.shape))


def _stand_in(type_: ValueType | None) -> np.ndarray:
    """An array of a value's shape and dtype that takes no memory."""
    if type_ is None or any(size is None for size in type_.shape) or type_.dtype not in FORMATS:
        raise ProblemShapeError("its sizes are known only while the model runs")
    shape = tuple(size for size in type_.shape if size is not None)
    return np.broadcast_to(np.zeros((), numpy_dtype(type_.dtype)), shape)
