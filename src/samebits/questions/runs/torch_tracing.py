"""Every torch operation of a process, recorded as it is dispatched: forward, backward and in optimizers.

Below autograd and above the kernels, so that what a training step really computes is seen, also where it changes a
tensor in place. Runs in the script's own process; nothing of the script is changed.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.questions.runs.recorder import Recorder, name_file
from samebits.questions.runs.tensors import KnownTensors, fingerprint, fingerprint_rows
from samebits.questions.runs.trace_file import Input

# Operators without a result that could differ, or only with one that has not been written yet.
_SKIPPED = (
    "detach",
    "_local_scalar_dense",
    "is_same_size",
    "set_",
    "lift_fresh",
    "alias",
    "_has_compatible_shallow_copy_type",
)
_UNWRITTEN = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "empty_permuted")


@dataclass(frozen=True)
class _Operator:
    """The facts about an operator, found once."""

    name: str
    is_view: bool
    is_random: bool
    is_unwritten: bool
    is_skipped: bool
    # Arguments that it writes into, by place and by name.
    written: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class _Before:
    """What was noted of an operation before it ran."""

    key: Any
    fed: list[Input]
    outside: dict[bytes, list[int]]
    random: bytes | None


class Tracing:
    """The tracing of one process: enters torch's dispatch, and listens to modules and optimizers."""

    def __init__(self, torch: Any, recorder: Recorder):
        self.torch = torch
        self.recorder = recorder
        self.operators: dict[Any, _Operator] = {}
        self.lines: dict[Any, str | None] = {}
        self.whats: dict[Any, int] = {}
        self.wheres: dict[tuple[str, str, str], int] = {}
        self.forwards: dict[int, tuple[str, str]] = {}
        self.modules: list[Any] = []
        self.names: dict[int, str] = {}
        self.step = 0
        self.in_optimizer = 0
        self._begin()
        recorder.on_fork = self._begin

    def _begin(self) -> None:
        self.known = KnownTensors(self.torch)
        self.whats, self.wheres, self.forwards = {}, {}, {}
        # The random states count from the first operation: until then a script imports, and seeds.
        self.is_begun = False

    def start(self) -> None:
        """From here on everything is recorded."""
        torch, tracing = self.torch, self
        base = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode

        class Mode(base):  # type: ignore[misc, valid-type]  (torch's class, known when it runs)
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return tracing.run(func, args, kwargs or {})

        # The first operation under a mode imports it, wherever the script is by then: its folder may be gone.
        importlib.import_module("torch._dynamo")
        modules = importlib.import_module("torch.nn.modules.module")
        optimizers = importlib.import_module("torch.optim.optimizer")
        self.hooks = [
            modules.register_module_forward_pre_hook(self._attempting(self._enter_module)),
            modules.register_module_forward_hook(self._attempting(self._leave_module), always_call=True),
            optimizers.register_optimizer_step_pre_hook(self._attempting(self._enter_optimizer)),
            optimizers.register_optimizer_step_post_hook(self._attempting(self._leave_optimizer)),
        ]
        self.sequence = torch.autograd._get_sequence_nr
        self.current = torch._C._current_autograd_node
        self.mode = Mode()
        self.mode.__enter__()
        self._pause_in_graph_tracing()

    def _pause_in_graph_tracing(self) -> None:
        """torch.jit.trace traces no operation under a mode: there the recording makes a pause."""
        torch, own = self.torch, importlib.import_module("torch.jit._trace")
        self.restores = []
        for name in ("trace", "trace_module"):
            plain = getattr(own, name)
            for place in (own, torch.jit):
                if getattr(place, name, None) is plain:
                    setattr(place, name, self._pausing(plain))
                    self.restores.append(functools.partial(setattr, place, name, plain))

    def _pausing(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            size = self.torch._C._len_torch_dispatch_stack()
            if not size or self.torch._C._get_dispatch_stack_at(size - 1) is not self.mode:
                return plain(*args, **kwargs)
            self.mode.__exit__(None, None, None)
            try:
                return plain(*args, **kwargs)
            finally:
                self.mode.__enter__()

        return call

    def _attempting(self, note: Callable[..., None]) -> Callable[..., None]:
        """A hook that never disturbs what it listens to."""
        return lambda *given: self.recorder.attempt(note, *given)

    def stop(self) -> None:
        """Ends the recording; what came together is appended."""
        self.mode.__exit__(None, None, None)
        for restore in self.restores:
            restore()
        for hook in self.hooks:
            hook.remove()
        self.recorder.close()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation: run, and recorded."""
        operator = self.operators.get(func) or self.recorder.attempt(self._describe, func)
        if operator is None or operator.is_skipped or self.recorder.is_closed:
            return func(*args, **kwargs)
        before = self.recorder.attempt(self._note_before, operator, func, args, kwargs)
        result = func(*args, **kwargs)
        if before is not None:
            self.recorder.attempt(self._note_after, operator, before, args, kwargs, result)
        return result

    def _note_before(self, operator: _Operator, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Before:
        """Keeps what is needed of an operation before it runs, as it may write into what it reads."""
        if not self.is_begun:
            self.is_begun = True
            self.recorder.note_states(self.step)
        inputs: list[Any] = []
        key = (func, _describe_all(self.torch.Tensor, (*args, *kwargs.items()), inputs))
        known = self.known
        fed = known.describe(inputs)
        outside = {
            f: fingerprint_rows(self.torch, t)
            for f, t in zip(fed, inputs, strict=True)
            if isinstance(f, bytes) and known.is_from_outside(t)
        }
        random = self._fingerprint_random(args, kwargs) if operator.is_random else None
        return _Before(key, fed, outside, random)

    def _note_after(
        self, operator: _Operator, before: _Before, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        """Records an operation that has run."""
        key, known = before.key, self.known
        outputs: list[Any] = []
        _collect(self.torch.Tensor, result, outputs)
        written = _find_written(self.torch.Tensor, operator, args, kwargs) if operator.written else []
        returned = {id(t) for t in outputs}
        outputs += [t for t in written if id(t) not in returned]
        changed = {id(t) for t in written}
        if operator.is_view or operator.is_unwritten:
            made: list[bytes | None] = [None] * len(outputs)
        else:
            made = [fingerprint(self.torch, t) for t in outputs]
        for tensor in outputs:
            known.remember(tensor, is_written=id(tensor) in changed)
        try:
            what = self.whats.get(key)
        except TypeError:  # Where an argument cannot be hashed its text is taken.
            key, what = None, None
        if what is None:
            what = self.recorder.number_text(_say(operator.name, args, kwargs, self.torch.Tensor))
            if key is not None:
                self.whats[key] = what
        if before.outside:
            self.recorder.note_rows(before.outside)
        place = self._find_where()
        self.recorder.add((what, place, self.step, before.fed, made, operator.is_view, before.random))

    def _describe(self, func: Any) -> _Operator:
        name = str(func)
        short = name.split("::")[-1].split(".")
        plain = short[1] if short[0] == "aten" and len(short) > 1 else short[0]
        schema = func._schema
        aliased = [r.alias_info for r in schema.returns if r.alias_info is not None]
        written = tuple(
            (i, a.name) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write
        )
        tags = getattr(func, "tags", ())
        found = _Operator(
            name,
            is_view=bool(aliased) and not any(a.is_write for a in aliased) and not written,
            is_random=self.torch.Tag.nondeterministic_seeded in tags,
            is_unwritten=plain in _UNWRITTEN,
            is_skipped=plain in _SKIPPED or name.startswith("profiler"),
            written=written,
        )
        self.operators[func] = found
        return found

    def _fingerprint_random(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        generator = next((a for a in (*args, *kwargs.values()) if isinstance(a, self.torch.Generator)), None)
        state = (generator or self.torch.default_generator).get_state()
        return fingerprint(self.torch, state) or b""

    def _find_where(self) -> int:
        """Module, line and direction of what runs now, as a text's number."""
        node = self.current()
        if node is not None:
            module, line = self.forwards.get(node._sequence_nr(), ("", ""))
            line = line or self._find_line()
            key = (module, line, "backward")
        else:
            module, line = self.names.get(id(self.modules[-1]), "") if self.modules else "", self._find_line()
            direction = "optimizer" if self.in_optimizer else "forward"
            key = (module, line, direction)
            if direction == "forward" and self.torch.is_grad_enabled():
                self.forwards[self.sequence() - 1] = (module, line)
        found = self.wheres.get(key)
        if found is None:
            found = self.wheres[key] = self.recorder.number_text("\t".join(key))
        return found

    def _find_line(self) -> str:
        """The line of the script, or of what it imports, that led here; our own and torch's lines are passed over."""
        frame: Any = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            try:
                name = self.lines[code]
            except KeyError:
                name = self.lines[code] = name_file(code.co_filename)
            if name is not None:
                return f"{name}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def _enter_module(self, module: Any, _args: Any) -> None:
        if not self.modules and id(module) not in self.names:
            kind = type(module).__name__
            self.names |= {id(m): f"{kind}.{name}" if name else kind for name, m in module.named_modules()}
        self.modules.append(module)

    def _leave_module(self, module: Any, _args: Any, _result: Any) -> None:
        while self.modules and self.modules.pop() is not module:
            continue

    def _enter_optimizer(self, *_: Any) -> None:
        self.in_optimizer += 1

    def _leave_optimizer(self, *_: Any) -> None:
        self.in_optimizer -= 1
        self.step += 1
        self.forwards.clear()
        self.recorder.note_states(self.step)


def _describe_all(tensor_class: Any, values: Sequence[Any], inputs: list[Any]) -> tuple[Any, ...]:
    """Arguments as a key that distinguishes calls: tensors by shape and dtype; the tensors themselves are collected."""
    found: list[Any] = []
    for value in values:
        if isinstance(value, tensor_class):
            inputs.append(value)
            found.append((_list_sizes(value), value.dtype))
        elif isinstance(value, (list, tuple)):
            found.append(_describe_all(tensor_class, value, inputs))
        else:
            # 1, 1.0 and True are equal.
            found.append((type(value), value))
    return tuple(found)


def _list_sizes(tensor: Any) -> tuple[Any, ...]:
    """A tensor's sizes; of a list of tensors (nested) how many these are, for some have no sizes together."""
    return ("nested", tensor.size(0)) if tensor.is_nested else tuple(tensor.shape)


def _collect(tensor_class: Any, value: Any, found: list[Any]) -> None:
    if isinstance(value, tensor_class):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for part in value:
            _collect(tensor_class, part, found)


def _find_written(tensor_class: Any, operator: _Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Arguments that the operation wrote into."""
    found: list[Any] = []
    for place, name in operator.written:
        _collect(tensor_class, args[place] if place < len(args) else kwargs.get(name), found)
    return found


def _say(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensor_class: Any) -> str:
    """An operation with shapes and settings: `aten.add.Tensor(float32[2, 3], float32[3], alpha=2)`."""
    parts = [_say_value(a, tensor_class) for a in args]
    parts += [f"{k}={_say_value(v, tensor_class)}" for k, v in kwargs.items()]
    return f"{name}({', '.join(parts)})"


def _say_value(value: Any, tensor_class: Any) -> str:
    if isinstance(value, tensor_class):
        return f"{str(value.dtype).removeprefix('torch.')}{list(_list_sizes(value))}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_say_value(v, tensor_class) for v in value) + "]"
    # Numbers and texts as they are; all else by its kind, for addresses differ between runs.
    plain = isinstance(value, (bool, int, float, str, type(None))) or type(value).__module__ == "torch"
    return repr(value) if plain and "object at" not in repr(value) else type(value).__name__
