"""Files that hold a network, by their names: what to ask of them, and what those need that samebits does not read."""

from __future__ import annotations

import zipfile
from pathlib import Path

_FUNCTION = "write a file.py whose function returns {}, and compare file.py:function"
_TF2ONNX = "python -m tf2onnx.convert {} {{path}} --output net.onnx (package tf2onnx), and compare net.onnx"
_SOURCE = "compare the ONNX file or the module that it was made from"
_WEIGHTS = f"it holds weights: {_FUNCTION.format('the module with them, and its inputs')}"
_KERAS = _FUNCTION.format("keras.saving.load_model({path!r}) and its inputs")
_SCRIPTED = f"no engine takes it as it is: {_FUNCTION.format('the module that it was made from, and its inputs')}"

# By how the name ends: what it is, and what to do.
_OTHERS = {
    ".pb": ("a TensorFlow graph", _TF2ONNX.format("--inputs NAMES --outputs NAMES --graphdef")),
    ".keras": ("a Keras model", _KERAS),
    ".h5": ("a Keras model", _KERAS),
    ".hdf5": ("a Keras model", _KERAS),
    ".pt": ("a torch file", _WEIGHTS),
    ".pth": ("a torch file", _WEIGHTS),
    ".torchscript": ("a TorchScript program", _SCRIPTED),
    ".ckpt": ("a checkpoint", _WEIGHTS),
    ".safetensors": ("a checkpoint", _WEIGHTS),
    ".gguf": ("a llama.cpp model", _WEIGHTS),
    ".xml": ("an OpenVINO model", _SOURCE),
    ".engine": ("a TensorRT engine", _SOURCE),
    ".plan": ("a TensorRT engine", _SOURCE),
    ".trt": ("a TensorRT engine", _SOURCE),
    ".mlmodel": ("a Core ML model", _SOURCE),
    ".mlpackage": ("a Core ML model", _SOURCE),
    ".pte": ("an ExecuTorch program", _SOURCE),
}


def is_other_network(path: str | Path) -> bool:
    """Whether a path names a network in a form that samebits does not read."""
    return Path(path).suffix in _OTHERS or _is_saved_model(path)


def explain_other_network(path: str | Path) -> str:
    """What a network in a form that samebits does not read is, and what to do with it."""
    if _is_saved_model(path):
        return f"is a TensorFlow SavedModel: {_TF2ONNX.format('--saved-model').format(path=path)}"
    what, advice = _OTHERS[".torchscript" if _is_scripted(path) else Path(path).suffix]
    return f"is {what}, which samebits does not read: {advice.format(path=str(path))}"


# By how the name ends: what such a file is, the command that tells of it, and what else that takes.
_ASKED_OTHERWISE = {
    (".onnx", ".tflite", ".pt2"): ("a network", "compare", ""),
    (".npy", ".csv", ".tsv"): ("two results", "explain", " OTHER"),
    (".log", ".txt", ".html"): ("a log", "explain", ""),
    (".json", ".parquet"): ("a finding", "report", ""),
}


def hint_file(path: str | Path, asked: str = "") -> str:
    """What else to do with a file that is no case, by its name; nothing where that is the command that was `asked`."""
    text = str(path)
    for ends, (what, command, more) in _ASKED_OTHERWISE.items():
        if text.endswith(ends) and command != asked:
            return f"; {what} {'are' if more else 'is'} for samebits {command} {text}{more}"
    if text.endswith(".py") or ".py:" in text:
        named = text if ".py:" in text else f"{text}:FUNCTION"
        return f"; a network is for samebits compare {named} (the function returns model and inputs)"
    return ""


def _is_scripted(path: str | Path) -> bool:
    """Whether a torch file is TorchScript: an archive with code beside its constants."""
    if Path(path).suffix not in (".pt", ".pth"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.partition("/")[2].startswith("code/") for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _is_saved_model(path: str | Path) -> bool:
    try:
        return (Path(path) / "saved_model.pb").is_file()
    except (OSError, ValueError):
        return False
