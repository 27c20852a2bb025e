"""What `file.py:function` returns: a torch or Keras model and its inputs, in the process that is to run it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from samebits.engines.adapters.given_code import find_file, load_object

_NOT_A_PAIR = "a function of a model returns the model and its inputs: `return model, x` or `return model, (x, y)`"


def load_function(text: str, keras_backend: str) -> tuple[Any, Any]:
    """The model and its inputs as the function returns them; where the file speaks of Keras, on this backend of it.

    Raises ValueError where file, function or what it returns is not as it should be, and whatever the file raises when
    it is read.
    """
    path, name = find_file(text)
    # Keras heeds this once, when it is loaded; a backend that the file sets is another side's.
    os.environ["KERAS_BACKEND"] = keras_backend
    if mentions_keras(path) and importlib.util.find_spec("keras") is not None:
        importlib.import_module("keras")
    made = load_object(text)
    try:
        returned = made()
    except Exception as error:  # Whatever the function raises: it is said with the line that did.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(path.name)]
        at = f" in line {frames[-1].lineno}" if frames else ""
        raise ValueError(f"{name} raised{at}: {type(error).__name__}: {error}") from error
    if not (isinstance(returned, tuple) and len(returned) == 2 and callable(returned[0])):
        raise ValueError(_NOT_A_PAIR)
    keras = sys.modules.get("keras")
    if keras is not None and isinstance(returned[0], keras.layers.Layer):
        if not isinstance(returned[0], keras.Model):
            raise ValueError(f"{name} returns a layer of Keras; wanted is a model: keras.Sequential([layer])")
        if keras.backend.backend() != keras_backend:
            raise ValueError(f"Keras runs on {keras.backend.backend()} here: something imported it before, set so")
    return returned


def mentions_keras(path: Path) -> bool:
    """Whether a file speaks of Keras at all."""
    return b"keras" in path.read_bytes()


def is_keras_model(model: Any) -> bool:
    """Whether a model is one of Keras, on whichever backend."""
    keras = sys.modules.get("keras")
    return keras is not None and isinstance(model, keras.Model)
