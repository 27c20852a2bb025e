"""Ways of calling the truth for `truth_sweep.py`: modes of the processor, threads, forks, new processes."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Job = tuple[str, dict[str, np.ndarray]]
# Bits of the MXCSR register: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, section 10.2.3.
_FLUSH_TO_ZERO, _DENORMALS_ARE_ZERO = 0x8000, 0x0040
MODES = {
    "usual": 0x0000,
    "subnormals flushed": _FLUSH_TO_ZERO | _DENORMALS_ARE_ZERO,
    "subnormal results flushed": _FLUSH_TO_ZERO,
    "subnormal operands flushed": _DENORMALS_ARE_ZERO,
    "rounding down": 0x2000,
    "rounding up": 0x4000,
    "rounding to zero": 0x6000,
}
# fesetround's numbers on x86, which set the old floating-point unit as well.
_ROUNDING = {0x2000: 0x400, 0x4000: 0x800, 0x6000: 0xC00}
# Where the C library's fenv_t of x86-64 holds MXCSR, and its size.
_MXCSR_AT, _FENV_BYTES = 28, 32
HUNG_S = 1800


@dataclass(frozen=True)
class Way:
    """A mode, where the call is made, and how many threads it is given (None: as many as there are cores)."""

    mode: str
    place: str = "here"
    threads: int | None = None

    def __str__(self) -> str:
        threads = f", threads={self.threads}" if self.threads else ""
        return f"{self.mode}, {self.place}{threads}"


WAYS = (
    *(Way(mode, "here", threads) for threads in (None, 1, 2, 5) for mode in MODES),
    *(Way(mode, "several threads at once", threads) for threads in (None, 2) for mode in MODES),
    *(Way(mode, "torch's and NumPy's functions") for mode in MODES for _ in range(2)),
    *(Way(mode, "forked child", threads) for threads in (None, 5) for mode in ("usual", "subnormals flushed")),
    *(Way(mode, "forked child") for mode in ("rounding up", "subnormal operands flushed")),
    *(Way(mode, "spawned child") for mode in ("usual", "subnormals flushed")),
)
# Compiling everything again takes long: a few jobs each.
COMPILING = tuple(Way(mode, "compiled in this mode") for mode in ("subnormals flushed", "rounding up"))


@contextlib.contextmanager
def float_mode(mode: str) -> Iterator[None]:
    """Sets this thread's mode, and what it was before afterwards; checks that it is set."""
    bits = MODES[mode]
    library = ctypes.CDLL(None)
    before = ctypes.create_string_buffer(_FENV_BYTES)
    library.fegetenv(before)
    try:
        if bits in _ROUNDING:
            library.fesetround(_ROUNDING[bits])
        elif mode == "subnormals flushed" and "torch" in sys.modules:
            sys.modules["torch"].set_flush_denormal(True)
        elif bits:
            _change_mxcsr(library, bits)
        now = ctypes.create_string_buffer(_FENV_BYTES)
        library.fegetenv(now)
        if int.from_bytes(now.raw[_MXCSR_AT : _MXCSR_AT + 4], "little") & 0xE040 != bits:
            raise RuntimeError(f"the processor does not take the mode {mode!r}")
        yield
    finally:
        library.fesetenv(before)


def _change_mxcsr(library: Any, bits: int) -> None:
    environment = ctypes.create_string_buffer(_FENV_BYTES)
    library.fegetenv(environment)
    control = int.from_bytes(environment.raw[_MXCSR_AT : _MXCSR_AT + 4], "little") | bits
    ctypes.memmove(ctypes.addressof(environment) + _MXCSR_AT, control.to_bytes(4, "little"), 4)
    library.fesetenv(environment)


def compute_all(way: Way, jobs: Sequence[Job]) -> list[np.ndarray]:
    """The truth of every job, computed in that way."""
    if way.place == "here":
        with float_mode(way.mode):
            return _compute(jobs, way.threads)
    if way.place == "several threads at once":
        return _compute_in_threads(way, jobs)
    if way.place == "torch's and NumPy's functions":
        return [_call_function(way.mode, job, n % 2 == 0) for n, job in enumerate(jobs)]
    if way.place == "forked child":
        with float_mode(way.mode):
            return _compute_in_child("fork", way, jobs)
    if way.place == "spawned child":
        return _compute_in_child("spawn", way, jobs)
    return _compute_anew(way, jobs)


def _compute(jobs: Sequence[Job], threads: int | None) -> list[np.ndarray]:
    from samebits.problems import parse_problem_text
    from samebits.sums.truth.convolution import compute_truth

    return [compute_truth(parse_problem_text(text), arrays, threads=threads).values for text, arrays in jobs]


def _compute_in_threads(way: Way, jobs: Sequence[Job]) -> list[np.ndarray]:
    """Three threads take the jobs in turns, the first in the way's mode and the others in two other ones."""
    modes = [way.mode, *(mode for mode in MODES if mode != way.mode)][:3]
    results: dict[int, Any] = {}

    def work(first: int) -> None:
        try:
            with float_mode(modes[first]):
                results[first] = _compute(jobs[first::3], way.threads)
        except BaseException as error:
            results[first] = error

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in results.values():
        if isinstance(outcome, BaseException):
            raise outcome
    return [results[n % 3][n // 3] for n in range(len(jobs))]


def _call_function(mode: str, job: Job, through_torch: bool) -> np.ndarray:
    """samebits.conv2d and its like on torch's tensors or NumPy's arrays; gradients and uneven padding have none."""
    import torch

    import samebits
    from samebits.problems import parse_problem_text

    text, arrays = job
    problem = parse_problem_text(text)
    if problem.direction != "forward" or any(begin != end for begin, end in problem.padding):
        with float_mode(mode):
            return _compute([job], None)[0]
    words: dict[str, Any] = {name: getattr(problem, name) for name in ("stride", "dilation", "groups")}
    words["padding"] = [begin for begin, _ in problem.padding]
    if problem.is_transposed:
        words["output_padding"] = problem.output_padding
    given: list[Any] = [arrays[name] for name in problem.operand_shapes]
    dtype: Any = problem.out
    if through_torch:
        given = [_as_tensor(array, problem.dtype) for array in given]
        dtype = getattr(torch, problem.out)
    with float_mode(mode):
        result = getattr(samebits, problem.kind)(*given, dtype=dtype, **words)
    if not through_torch:
        return result
    width = result.element_size()
    return result.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]).numpy()


def _as_tensor(array: np.ndarray, name: str) -> Any:
    """The same bits as a tensor, whatever its format."""
    import torch

    codes = np.ascontiguousarray(array).view({1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[array.dtype.itemsize])
    return torch.from_numpy(codes).view(getattr(torch, name))


def _compute_in_child(method: Any, way: Way, jobs: Sequence[Job]) -> list[np.ndarray]:
    context: Any = multiprocessing.get_context(method)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_results, args=(sender, way, list(jobs)))
    child.start()
    sender.close()
    try:
        if not receiver.poll(HUNG_S):
            raise RuntimeError(f"no answer within {HUNG_S} s: {way}")
        answer = receiver.recv()
    finally:
        child.kill()
        child.join()
    if isinstance(answer, str):
        raise RuntimeError(answer)
    return answer


def _send_results(sender: Any, way: Way, jobs: Sequence[Job]) -> None:
    try:
        with float_mode(way.mode):
            answer: Any = [codes_of(values) for values in _compute(jobs, way.threads)]
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    sender.send(answer)
    sender.close()


def codes_of(values: np.ndarray) -> np.ndarray:
    """The bits of an array of any format."""
    return np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}")


def _compute_anew(way: Way, jobs: Sequence[Job]) -> list[np.ndarray]:
    """In a program that sets the mode first, then imports and compiles everything, its caches being empty."""
    with tempfile.TemporaryDirectory() as folder:
        held = {f"{n}.{name}": codes_of(array) for n, (_, job) in enumerate(jobs) for name, array in job.items()}
        _save(f"{folder}/jobs.npz", held)
        Path(folder, "texts").write_text("\n".join(text for text, _ in jobs))
        variables = {"NUMBA_CACHE_DIR": f"{folder}/numba", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        command = [sys.executable, __file__, way.mode, folder]
        subprocess.run(command, env={**os.environ, **variables}, check=True, timeout=HUNG_S)
        with np.load(Path(folder, "results.npz")) as results:
            return [results[str(n)] for n in range(len(jobs))]


def _run_in_this_program(mode: str, folder: str) -> None:
    with np.load(Path(folder, "jobs.npz")) as stored:
        held = dict(stored)
    texts = Path(folder, "texts").read_text().splitlines()
    with float_mode(mode):
        from samebits.numbers.format import numpy_dtype
        from samebits.problems import parse_problem_text

        jobs = []
        for n, text in enumerate(texts):
            problem = parse_problem_text(text)
            dtype = numpy_dtype(problem.dtype)
            jobs.append((text, {name: held[f"{n}.{name}"].view(dtype) for name in problem.operand_shapes}))
        results = _compute(jobs, None)
    _save(f"{folder}/results.npz", {str(n): codes_of(values) for n, values in enumerate(results)})


def _save(path: str, arrays: dict[str, np.ndarray]) -> None:
    save: Any = np.savez  # The checker takes the arrays for its options.
    save(path, **arrays)


if __name__ == "__main__":
    _run_in_this_program(*sys.argv[1:])
