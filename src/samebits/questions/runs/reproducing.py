"""One block in which all is set that makes a run repeatable, for the frameworks that are loaded; then restored."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import ReproducibilityError

_WORKSPACE, _FIXED_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG", ":4096:8"
_NO_KERNEL = re.compile(r"^(.{1,120}?) does not have a deterministic implementation")


@dataclass(frozen=True)
class Change:
    """A setting, what it was before the block and what it is inside."""

    name: str
    before: str
    inside: str


@dataclass
class Reproduced:
    """What was done: changes, in sequence, and remarks on what a running process cannot change."""

    changes: list[Change] = field(default_factory=list[Change])
    remarks: list[str] = field(default_factory=list[str])


@contextlib.contextmanager
def reproducible(seed: int = 0) -> Iterator[Reproduced]:
    """Seeds and settings for repeatable bits of Python, NumPy, torch, TensorFlow and Keras, as far as they are loaded.

    Everything is put back at the end, random states too; what TensorFlow cannot put back is remarked. Raises
    ReproducibilityError where something cannot be honoured: a seed that is none, CUDA in use with an open workspace,
    and, out of the block, an operation that torch has no deterministic kernel for, by its name.

    >>> import random, samebits
    >>> def draw():
    ...     with samebits.reproducible(7):
    ...         return random.random()
    >>> draw() == draw()
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**32:
        raise ReproducibilityError(f"a seed is a whole number from 0 to 2^32 - 1, not {seed!r}")
    done = Reproduced()
    with contextlib.ExitStack() as restored:
        setter = _Setter(done, restored)
        _set_python(setter, seed)
        if (numpy := sys.modules.get("numpy.random")) is not None:
            setter.seed("numpy seed", numpy.get_state, numpy.set_state, lambda: numpy.seed(seed), seed)
        if (torch := sys.modules.get("torch")) is not None:
            _set_torch(setter, torch, seed)
        if (tensorflow := sys.modules.get("tensorflow")) is not None:
            _set_tensorflow(setter, tensorflow, seed)
        if "jax" in sys.modules:
            done.remarks.append(
                "jax: keys are seeds, and are the script's own; on a GPU set XLA_FLAGS before it starts"
            )
        try:
            yield done
        except RuntimeError as error:
            found = _NO_KERNEL.match(str(error))
            if found is None:
                raise
            raise ReproducibilityError(
                f"torch has no deterministic kernel for {found[1]}; use another operation"
            ) from error


@dataclass
class _Setter:
    """Sets one thing after the other, notes it, and puts it back at the end."""

    done: Reproduced
    restored: contextlib.ExitStack

    def set(self, name: str, before: Any, inside: Any, apply: Callable[[Any], Any]) -> None:
        """Applies a value where it is another one."""
        if before == inside:
            return
        apply(inside)
        self.restored.callback(apply, before)
        self.done.changes.append(Change(name, str(before), str(inside)))

    def seed(
        self, name: str, get: Callable[[], Any], put: Callable[[Any], Any], apply: Callable[[], Any], seed: int
    ) -> None:
        """Seeds a generator, whose state comes back."""
        self.restored.callback(put, get())
        apply()
        self.done.changes.append(Change(name, "its own state", str(seed)))


def _set_python(setter: _Setter, seed: int) -> None:
    setter.seed("python seed", random.getstate, random.setstate, lambda: random.seed(seed), seed)
    if sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "random") == "random":
        setter.done.remarks.append(
            "sets of texts come in another order every time: PYTHONHASHSEED=0 before Python starts"
        )


def _set_torch(setter: _Setter, torch: Any, seed: int) -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized() and _WORKSPACE not in os.environ:
        raise ReproducibilityError(f"CUDA is in use already: set {_WORKSPACE}={_FIXED_WORKSPACE} before Python starts")
    setter.set(_WORKSPACE, os.environ.get(_WORKSPACE), os.environ.get(_WORKSPACE, _FIXED_WORKSPACE), _set_workspace)
    setter.seed("torch seed", torch.get_rng_state, torch.set_rng_state, lambda: torch.manual_seed(seed), seed)
    mode = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    setter.set(
        "torch.use_deterministic_algorithms",
        mode,
        (True, False),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    )
    for owner, name, inside in (
        (torch.backends.cudnn, "benchmark", False),
        (torch.backends.cudnn, "deterministic", True),
        (torch.backends.mkldnn, "deterministic", True),
        (torch.utils.deterministic, "fill_uninitialized_memory", True),
    ):
        label = f"{owner.__name__ if hasattr(owner, '__name__') else type(owner).__name__}.{name}"
        setter.set(label, getattr(owner, name), inside, lambda value, o=owner, n=name: setattr(o, n, value))
    setter.done.remarks.append(f"torch: the bits hold for {torch.get_num_threads()} threads on this processor")


def _set_workspace(value: str | None) -> None:
    if value is None:
        os.environ.pop(_WORKSPACE, None)
    else:
        os.environ[_WORKSPACE] = value


def _set_tensorflow(setter: _Setter, tensorflow: Any, seed: int) -> None:
    """Sets TensorFlow's seed and determinism, neither of which it can read or put back."""
    tensorflow.random.set_seed(seed)
    tensorflow.config.experimental.enable_op_determinism()
    setter.done.changes.append(Change("tensorflow seed", "unknown", str(seed)))
    setter.done.changes.append(Change("tensorflow enable_op_determinism", "unknown", "True"))
    setter.done.remarks.append("tensorflow: seed and determinism stay behind the block, it cannot put them back")
