"""One operation of a run, saved with its arguments and its result when the run comes to it again; then the run ends.

Runs in the script's own process, as the recording does.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np

from samebits.questions.runs.recorder import CAPTURE_VARIABLE, Recorder
from samebits.questions.runs.torch_tracing import Tracing

# How torch's dtypes travel that NumPy lacks: as integers of their width.
_AS_INTEGERS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}

_WAIT_TO_BE_ENDED_S = 10.0


class SavingTracing(Tracing):
    """Records as ever, and saves the operation at one place of one process."""

    def __init__(self, torch: Any, recorder: Recorder, process: str, place: int, file: str):
        super().__init__(torch, recorder)
        self.process, self.place, self.file = process, place, file

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """One operation: run, recorded, and saved if it is the one that was asked for."""
        before = self.recorder.added
        result = super().run(func, args, kwargs)
        is_new = self.recorder.added > before
        if is_new and before == self.place and self.recorder.name == self.process:
            # The file comes last: the process that waits for it then takes the trace for whole, and ends the run.
            self.recorder.close()
            with self.torch.no_grad():
                self._save(str(func), args, kwargs, result)
            # The process that waits for it ends the run with all its processes. If this one ended by itself, a shell
            # that started it would go on in between.
            time.sleep(_WAIT_TO_BE_ENDED_S)
            os._exit(0)
        return result

    def _save(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        arrays: dict[str, np.ndarray] = {}
        said = {
            "name": name,
            "args": [self._take(a, arrays) for a in args],
            "kwargs": {k: self._take(v, arrays) for k, v in kwargs.items()},
            "result": self._take(result, arrays),
        }
        temporary = f"{self.file}.part"
        with open(temporary, "wb") as file:
            np.savez(file, allow_pickle=False, said=np.array(json.dumps(said)), **arrays)  # type: ignore[arg-type]  (NumPy's stubs take the arrays for its own flag)
        os.replace(temporary, self.file)

    def _take(self, value: Any, arrays: dict[str, np.ndarray]) -> Any:
        """A value as JSON; tensors stand elsewhere, by their names."""
        if isinstance(value, self.torch.Tensor):
            name, dtype = f"t{len(arrays)}", str(value.dtype).removeprefix("torch.")
            plain = value.detach().cpu().contiguous()
            if dtype in _AS_INTEGERS:
                plain = plain.view(getattr(self.torch, _AS_INTEGERS[dtype]))
            arrays[name] = plain.numpy()
            return {"tensor": name, "dtype": dtype}
        if isinstance(value, (list, tuple)):
            return [self._take(v, arrays) for v in value]
        return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


def make_tracing(torch: Any, recorder: Recorder) -> Tracing:
    """The tracing of this process: one that saves an operation where its environment asks for that."""
    asked = os.environ.get(CAPTURE_VARIABLE)
    if not asked:
        return Tracing(torch, recorder)
    wanted = json.loads(asked)
    return SavingTracing(torch, recorder, wanted["process"], wanted["place"], wanted["file"])
