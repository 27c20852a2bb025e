"""cuDNN through its own frontend: every engine configuration that it offers for a problem can be run.

Arrays lie on the GPU as torch's tensors. A configuration is named as cuDNN names it, `eng28_k2=6_k13=1`: an engine and
its knobs. Which there are depends on the problem, the GPU and the version.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.engines.adapters.torch_cuda import name_gpu
from samebits.engines.adapters.torch_program import as_array, as_tensor
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

_TYPES = {
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "float16": "HALF",
    "bfloat16": "BFLOAT16",
    "float8_e4m3fn": "FP8_E4M3",
    "float8_e5m2": "FP8_E5M2",
}
_MOST_GRAPHS = 16
_PLAN, _ENGINE = re.compile(r"eng\d+.*"), re.compile(r"eng(\d+)")
_SAID_FIRST = 12
# TENSOR_CORE is left out: the frontend adds it to every engine that has any note (filter of notes, up to 1.32).
_NOTES = (
    "DOWN_CONVERT_INPUTS", "REDUCED_PRECISION_REDUCTION", "FFT", "NONDETERMINISTIC", "WINOGRAD",
    "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13",
)  # fmt: skip


@dataclass
class _Graph:
    """A problem as cuDNN's graph: its tensors by operand, the result, and the names of its configurations."""

    graph: Any
    inputs: dict[str, Any]
    result: Any
    shape: tuple[int, ...]
    names: list[str]


class CudnnEngine(Engine):
    """cuDNN's convolutions, their gradients and its products, without a bias and without an epilogue."""

    name = "cudnn"
    settings: ClassVar[dict[str, Setting]] = {
        "plan": Setting("engine and knobs as cuDNN names them; its heuristic's first if not given", of_problems=True),
        "compute": Setting("the format that cuDNN is asked to compute in", "float32", ("float32", "float16")),
        "layout": Setting("memory format of x and w", "contiguous", ("contiguous", "channels_last"), of_problems=True),
    }
    variables: ClassVar[dict[str, str]] = {
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
        "CUDNN_LOGLEVEL_DBG": "writes a log of cuDNN's calls",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        self.torch: Any = importlib.import_module("torch")
        if not self.torch.cuda.is_available():
            raise EngineUnsupported("cudnn: torch, which holds its arrays, sees no GPU")
        self.cudnn: Any = importlib.import_module("cudnn")
        self.plan = settings.get("plan", "")
        self.compute = settings.get("compute", "float32")
        self.channels_last = settings.get("layout") == "channels_last"
        self.handle = self.cudnn.create_handle()
        self.graphs: dict[Problem, _Graph] = {}

    def report(self) -> InForce:
        in_force = {
            "plan": self.plan or "heuristic",
            "compute": self.compute,
            "layout": "channels_last" if self.channels_last else "contiguous",
            "frontend": str(getattr(self.cudnn, "__version__", "unknown")),
        }
        return InForce(str(self.cudnn.backend_version()), name_gpu(self.torch), in_force)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.bias or problem.then:
            return "cudnn is asked for convolutions and products alone, without bias and epilogue"
        if problem.kind == "linear" or (problem.product and (len(problem.x) < 2 or len(problem.w) < 2)):
            return "cudnn's products are matmul of matrices"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        torch = self.torch
        made = self._find_graph(problem)
        place = self._find_plan(made)
        made.graph.build_plan_at_index(place)
        given = {
            name: self._lay_out(as_tensor(torch, np.ascontiguousarray(a)).reshape(self._widen(problem, a.shape)))
            for name, a in operands.items()
        }
        result = self._lay_out(torch.zeros(made.shape, dtype=getattr(torch, problem.out)))
        size = max(made.graph.get_workspace_size_plan_at_index(place), 1)
        workspace = torch.empty(size, device="cuda", dtype=torch.uint8)
        pack = {made.inputs[name]: tensor for name, tensor in given.items()} | {made.result: result}

        def execute() -> Any:
            made.graph.execute_plan_at_index(pack, workspace, place, handle=self.handle)
            torch.cuda.synchronize()
            return result

        return Prepared(execute, lambda tensor: as_array(torch, tensor).reshape(problem.out_shape))

    def list_plans(self, problem: Problem) -> list[str]:
        """The configurations that cuDNN names for a problem, its heuristic's first; not all of them run."""
        return list(self._find_graph(problem).names)

    def read_notes(self, problem: Problem) -> dict[str, list[str]]:
        """What cuDNN says of each configuration's numerics (its numerical notes), TENSOR_CORE aside.

        Notes are an engine's, whatever its knobs. The frontend tells them only by refusing plans that have one.
        """
        names = self.list_plans(problem)
        engines = dict.fromkeys(int(found.group(1)) for name in names if (found := _ENGINE.match(name)))
        notes = {engine: self._ask_notes(problem, engine) for engine in engines}
        return {name: notes.get(int(found.group(1)), []) if (found := _ENGINE.match(name)) else [] for name in names}

    def _ask_notes(self, problem: Problem, engine: int) -> list[str]:
        if not self._is_refused(problem, engine, _NOTES):
            return []
        return [note for note in _NOTES if self._is_refused(problem, engine, (note,))]

    def _is_refused(self, problem: Problem, engine: int, notes: Sequence[str]) -> bool:
        """Whether an engine has one of these notes."""
        graph = self._describe(problem).graph
        try:
            # The only plan of its graph: the frontend (up to 1.17) mixes up the notes of several made so.
            graph.create_execution_plan(engine, {})
            graph.deselect_numeric_notes([getattr(self.cudnn.numerical_note, note) for note in notes])
            # No plan may be built for this: it is refused then, for its note or for its workspace.
            graph.deselect_workspace_greater_than(-1)
            graph.build_plan_at_index(0)
        except Exception as error:  # Whatever class the frontend raises: its text says which refusal it is.
            return str(error).strip().endswith("Deselecting execution plan")
        return False

    def _find_plan(self, made: _Graph) -> int:
        if not self.plan:
            return 0
        if self.plan not in made.names:
            first = ", ".join(made.names[:_SAID_FIRST])
            raise EngineUnsupported(f"cudnn has no plan {self.plan} for this problem; it has {first} ...")
        return made.names.index(self.plan)

    def _find_graph(self, problem: Problem) -> _Graph:
        if problem not in self.graphs:
            kept = [*self.graphs.items()][-_MOST_GRAPHS + 1 :]
            self.graphs = dict(kept) | {problem: self._build(problem)}
        return self.graphs[problem]

    def _build(self, problem: Problem) -> _Graph:
        """The problem's graph with all configurations: those of the heuristic, then each engine's own."""
        made = self._describe(problem)
        graph = made.graph
        with contextlib.suppress(Exception):
            graph.create_execution_plans([self.cudnn.heur_mode.A, self.cudnn.heur_mode.FALLBACK])
        for engine in range(graph.get_engine_count()):
            # An engine that does not know this problem has no configuration.
            with contextlib.suppress(Exception):
                graph.create_execution_plan(engine, {})
        full = [graph.get_plan_name_at_index(i) for i in range(graph.get_execution_plan_count())]
        if not full:
            raise EngineUnsupported("cudnn has no engine for this problem")
        made.names = [found.group() if (found := _PLAN.search(name)) else name for name in full]
        return made

    def _describe(self, problem: Problem) -> _Graph:
        """The problem's graph, without any configuration."""
        cudnn = self.cudnn
        compute = self._type("float64" if problem.dtype == "float64" else self.compute)
        graph = cudnn.pygraph(
            io_data_type=self._type(problem.dtype), intermediate_data_type=compute, compute_data_type=compute,
            handle=self.handle,
        )  # fmt: skip
        shapes = {name: self._widen(problem, shape) for name, shape in problem.operand_shapes.items()}
        inputs = {
            name: graph.tensor(
                name=name, dim=list(shape), stride=self._strides(shape), data_type=self._type(problem.dtype)
            )
            for name, shape in shapes.items()
        }
        shape = self._widen(problem, problem.out_shape)
        result = self._multiply(graph, inputs) if problem.product else self._convolve(problem, graph, inputs)
        result.set_output(True).set_data_type(self._type(problem.out))
        result.set_dim(list(shape)).set_stride(self._strides(shape))
        graph.validate()
        graph.build_operation_graph()
        return _Graph(graph, inputs, result, shape, [])

    @staticmethod
    def _multiply(graph: Any, inputs: Mapping[str, Any]) -> Any:
        return graph.matmul(A=inputs["x"], B=inputs["w"])

    @staticmethod
    def _convolve(problem: Problem, graph: Any, inputs: Mapping[str, Any]) -> Any:
        # An axis of size one stands before a single spatial one.
        more = [(0, 0, 1, 1)] if problem.rank == 1 else []
        axes = more + [(a.pad_begin, a.pad_end, a.stride, a.dilation) for a in problem.axes]
        before, after, stride, dilation = ([axis[i] for axis in axes] for i in range(4))
        moves = {"pre_padding": before, "post_padding": after, "stride": stride, "dilation": dilation}
        x, w, dy = (inputs.get(name) for name in ("x", "w", "dy"))
        if problem.is_transposed:
            x, dy = dy, x
        direction = problem.direction
        if problem.is_transposed and direction != "grad_weight":
            direction = "grad_input" if direction == "forward" else "forward"
        if direction == "forward":
            return graph.conv_fprop(image=x, weight=w, **moves)
        if direction == "grad_input":
            return graph.conv_dgrad(loss=dy, filter=w, **moves)
        return graph.conv_wgrad(image=x, loss=dy, **moves)

    def _type(self, name: str) -> Any:
        return getattr(self.cudnn.data_type, _TYPES[name])

    @staticmethod
    def _widen(problem: Problem, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape as cuDNN takes it: a product has a batch axis, a convolution at least two spatial ones."""
        if problem.product:
            return (1, *shape) if len(shape) == 2 else shape
        return (*shape[:2], 1, shape[2]) if len(shape) == 3 else shape

    def _strides(self, shape: tuple[int, ...]) -> list[int]:
        if not self.channels_last or len(shape) < 4:
            return [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        last = [math.prod(shape[i + 1 :]) * shape[1] for i in range(2, len(shape))]
        return [math.prod(shape[1:]), 1, *last]

    def _lay_out(self, tensor: Any) -> Any:
        shape = tuple(tensor.shape)
        laid = self.torch.empty_strided(shape, self._strides(shape), dtype=tensor.dtype, device="cuda")
        return laid.copy_(tensor)
