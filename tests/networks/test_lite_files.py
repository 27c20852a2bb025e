"""LiteRT files that TensorFlow's converter writes, and damaged ones: what they say, run by LiteRT's own kernels."""

import contextlib
import warnings

import numpy as np
import pytest

import samebits
from samebits.cli import main
from samebits.findings.causes import CauseCode
from samebits.machine import list_processor_features

pytestmark = [pytest.mark.needs("litert"), pytest.mark.needs("tensorflow"), pytest.mark.slow]
KERNELS = ["litert", "litert:kernels=builtin", "litert:kernels=reference"]


def make_layers(tf):
    given = tf.keras.Input((12, 12, 3))
    x = tf.keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu6")(given)
    x = tf.keras.layers.DepthwiseConv2D(3, padding="same", activation="relu")(x)
    x = tf.keras.layers.Add()([x, tf.keras.layers.Conv2D(8, 1)(x)])
    x = tf.keras.layers.MaxPool2D()(x)
    x = tf.keras.layers.Conv2DTranspose(4, 2, strides=2)(x)
    x = tf.keras.layers.Flatten()(x)
    return tf.keras.Model(given, tf.keras.layers.Dense(10)(x))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One network, converted in four ways."""
    tf = pytest.importorskip("tensorflow")
    tf.keras.utils.set_random_seed(0)
    model = make_layers(tf)
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("lite")
    ops = tf.lite.OpsSet
    ways = {
        "float": {},
        "half": {"types": [tf.float16]},
        "int8": {"ops": [ops.TFLITE_BUILTINS_INT8]},
        "int16": {"ops": [ops.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]},
    }
    for name, way in ways.items():
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if name != "float":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if name.startswith("int"):
            converter.representative_dataset = lambda: (
                [rng.standard_normal((1, 12, 12, 3), dtype=np.float32)] for _ in range(10)
            )
            converter.target_spec.supported_ops = way["ops"]
        if name == "int8":
            converter.inference_input_type = converter.inference_output_type = tf.int8
        converter.target_spec.supported_types = way.get("types", [])
        with warnings.catch_warnings():
            # The converter warns of statistics that it asks for in no call.
            warnings.simplefilter("ignore")
            (folder / f"{name}.tflite").write_bytes(converter.convert())
    return folder


@pytest.mark.parametrize("name", ["float", "half", "int8", "int16"])
def test_what_converters_write_is_judged_unit_by_unit(files, name):
    found = samebits.compare(files / f"{name}.tflite", KERNELS)
    assert [side.failure for side in found.sides] == [None] * 3
    assert found.verdict in ("identical", "rounding")
    assert [side.deviating for side in found.sides] == [0] * 3
    assert len(found.units) >= 4
    assert all(side.is_judged for unit in found.units for side in unit.sides)


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize("name", ["float", "int8"])
def test_another_engine_runs_what_the_file_says(files, name):
    """Its operators as ONNX's: the same codes but where a result is near a half, the same numbers but for rounding."""
    # Without VNNI onnxruntime's sums of pairs saturate otherwise.
    found = samebits.compare(files / f"{name}.tflite", ["litert", "onnxruntime:x64quantprecision=on"])
    assert found.verdict in ("identical", "rounding")
    assert [side.deviating for side in found.sides] == [0, 0]


@pytest.mark.needs("onnxruntime")
def test_sums_that_overflow_on_older_processors_are_named_in_units_of_several_convolutions(files):
    """onnxruntime keeps the codes between two convolutions to itself, and turns axes before each."""
    found = samebits.compare(files / "int8.tflite", ["litert", "onnxruntime"])
    has_wide_sums = {"avx512_vnni", "avx_vnni", "asimd"} & set(list_processor_features())
    assert found.sides[0].verdict in ("identical", "rounding")
    if has_wide_sums:
        assert found.verdict in ("identical", "rounding")
    else:
        assert (found.sides[1].verdict, found.sides[1].cause) == ("wrong", CauseCode.INT8_SATURATION)


def test_what_a_device_returned_is_compared_with_the_file(files):
    """A device whose last layer adds three to a code, and the control: LiteRT's own values, all on record."""
    lite = pytest.importorskip("ai_edge_litert.interpreter")
    path = files / "int8.tflite"
    interpreter = lite.Interpreter(
        model_path=str(path),
        experimental_op_resolver_type=lite.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    x = np.random.default_rng(1).integers(-40, 40, given["shape"]).astype(np.int8)
    interpreter.set_tensor(given["index"], x)
    interpreter.invoke()
    values = {one["name"]: interpreter.get_tensor(one["index"]) for one in interpreter.get_tensor_details()}
    for added in (0, 3):
        returned = values[made["name"]].copy()
        returned[0, 1] += added
        recorded = {"phone": {**values, made["name"]: returned}}
        found = samebits.compare(path, KERNELS[2:], inputs={given["name"]: x}, recorded=recorded)
        assert [one.differing for one in found.outputs] == [int(added > 0)]
        assert found.verdict == ("undecided" if added else "identical")


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "zeros", "noise"])
def test_a_damaged_file_is_one_line(files, damage, tmp_path, monkeypatch, capsys):
    content = (files / "int8.tflite").read_bytes()
    rng = np.random.default_rng(2)
    noise = bytearray(content)
    for place in rng.integers(8, len(content), 400):
        noise[place] = rng.integers(0, 256)
    damaged = {
        "empty": b"", "text": b"no file of that kind", "cut": content[: len(content) // 3],
        "zeros": content[:64] + bytes(len(content) - 64), "noise": bytes(noise),
    }[damage]  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.tflite").write_bytes(damaged)
    status = None
    with contextlib.suppress(SystemExit):
        status = main(["compare", "bad.tflite", "--on", "litert", "--quick"])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if damage != "noise":  # Noise in weights may leave a file that says something.
        assert status == 2
        assert said.splitlines()[-1].startswith("samebits: bad.tflite cannot be read:")


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "int8.tflite", "--size", "batch={1..2}", "--on", "litert"],
        ["pick", "float.tflite", "--on", "litert"],
        ["compare", "float.tflite", "--on", "litert", "--against", "int8.tflite"],
    ],
)
def test_what_reads_no_such_file_says_what_does(files, words, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert main(words) == 2
    assert "a LiteRT file is read by compare alone" in capsys.readouterr().err


def test_without_the_file_or_the_engine_one_line_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "missing.tflite", "--on", "litert"]) == 2
    assert "missing.tflite: no such file" in capsys.readouterr().err
