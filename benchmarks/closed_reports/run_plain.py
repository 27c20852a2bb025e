"""Runs a report's network with an engine alone: `python run_plain.py ENGINE MODEL INPUTS.npz OUTPUTS.npz`.

Needs nothing but the engine and NumPy, so that whether a release is wrong does not hang on samebits.
"""

import contextlib
import os
import subprocess
import sys
import tempfile

import numpy as np


def run_onnxruntime(model, inputs):
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def run_openvino(model, inputs):
    from openvino import Core

    compiled = Core().compile_model(model, "CPU")
    fed = {port: inputs[next(n for n in port.get_names() if n in inputs)] for port in compiled.inputs}
    results = compiled(fed)
    return {name: np.array(results[port]) for port in compiled.outputs for name in port.get_names()}


def run_opencv(model, inputs):
    import cv2

    net = cv2.dnn.readNetFromONNX(model)
    for name, array in inputs.items():
        net.setInput(array, *([name] if len(inputs) > 1 else []))
    names = net.getUnconnectedOutLayersNames()
    return {n.split("!")[-1]: np.array(y) for n, y in zip(names, net.forward(names), strict=True)}


def run_tract(model, inputs):
    import tract

    reader = tract.onnx()
    read = reader.load(model) if hasattr(reader, "load") else reader.model_for_path(model)
    given = [read.input_name(i) for i in range(read.input_count())]
    made = [read.output_name(i) for i in range(read.output_count())]
    ready = read.into_optimized() if hasattr(read, "into_optimized") else read.into_model()
    results = ready.into_runnable().run([inputs[name] for name in given])
    return {name: np.array(y.to_numpy()) for name, y in zip(made, results, strict=True)}


def run_iree(model, inputs):
    import iree.runtime

    here = os.path.dirname(sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        graph, program = os.path.join(folder, "net.mlir"), os.path.join(folder, "net.vmfb")
        subprocess.run([os.path.join(here, "iree-import-onnx"), model, "-o", graph], check=True)
        target = ["--iree-hal-target-backends=llvm-cpu", "--iree-llvmcpu-target-cpu=host", "--iree-input-type=onnx"]
        subprocess.run([os.path.join(here, "iree-compile"), graph, "-o", program, *target], check=True)
        context = iree.runtime.SystemContext(config=iree.runtime.Config("local-sync"))
        with open(program, "rb") as file:
            module = iree.runtime.VmModule.copy_buffer(context.instance, file.read())
    context.add_vm_module(module)
    name = [n for n in module.function_names if not n.startswith("__") and not n.endswith("$async")][-1]
    results = getattr(context.modules[module.name], name)(*inputs.values())
    several = results if isinstance(results, (list, tuple)) else [results]
    return {f"output {i}": np.array(y.to_host()) for i, y in enumerate(several)}


ENGINES = {
    "onnxruntime": run_onnxruntime,
    "openvino": run_openvino,
    "opencv": run_opencv,
    "tract": run_tract,
    "iree": run_iree,
}

if __name__ == "__main__":
    engine, model, given, made = sys.argv[1:]
    if engine not in ENGINES:
        sys.exit(f"{engine} is not run without samebits here")
    with contextlib.closing(np.load(given)) as arrays:
        np.savez(made, **ENGINES[engine](model, dict(arrays)))
