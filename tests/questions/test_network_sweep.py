"""A network over its batch: classes as plain torch has them, the unit that makes them, what only inherits them."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from networks.network_building import make_model, node, random, save
from samebits.cli import main
from samebits.errors import ArgumentError, ModelError
from samebits.questions.report.rendering import render_markdown
from samebits.questions.sweep.network_sweeping import sweep_network
from samebits.questions.sweep.sweep_text import Range

pytestmark = pytest.mark.usefixtures("warm_workers")

UP_TO_SIX = Range("batch", (1, 2, 3, 4, 5, 6))
KERNELS = """
    import numpy as np

    def halves(problem, operands):
        "Sums in two halves where there are more than three rows of 64 terms, in one go elsewhere."
        x, w = operands["x"], operands["w"]
        if len(x) <= 3 or x.shape[-1] != 64:
            return add(x, w)
        return add(x[..., :32], w[:32]) + add(x[..., 32:], w[32:])

    def add(x, w):
        total = np.zeros((*x.shape[:-1], w.shape[-1]), np.float32)
        for k in range(x.shape[-1]):
            total += x[..., k : k + 1] * w[k]
        return total
"""


def two_products(*, batch="batch"):
    nodes = [
        node("MatMul", ["x", "v"], ["a"]),
        node("Softmax", ["a"], ["s"]),
        node("MatMul", ["s", "w"], ["b"]),
        node("Relu", ["b"], ["r"]),
        node("MatMul", ["r", "u"], ["y"]),
    ]
    constants = {"v": random((16, 64), 1), "w": random((64, 16), 2), "u": random((16, 8), 3)}
    return make_model(nodes, {"x": [batch, 16]}, ["y"], constants)


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "kernels.py").write_text(textwrap.dedent(KERNELS))
    return f"{tmp_path}/kernels.py:halves"


@pytest.fixture
def model(tmp_path):
    return save(two_products(), tmp_path / "two.onnx")


def test_the_unit_whose_sums_change_is_named_and_what_inherits_them_is_not(model, kernel):
    found = sweep_network(model, [kernel, "emulate:direct"], UP_TO_SIX)
    assert [one.sizes for one in found.classes] == [[[1, 3]], [[4, 6]]]
    (unit,) = found.units
    assert unit.operators == ["MatMul", "Relu"]
    assert unit.problem == "matmul x=6x64 w=64x16 dtype=float32"
    assert unit.cells == [{"batch": [1, 3]}]
    assert found.invariant is False
    assert "it begins in" in found.summary
    page = render_markdown(found)
    assert f"samebits sweep {model} --size 'batch={{1..6}}' --on {kernel}" in page
    assert "matmul x=6x64 w=64x16" in page
    (sound,) = found.more
    assert (sound.invariant, len(sound.classes), sound.units) == (True, 1, [])


def test_what_gives_the_same_bits_at_every_size_is_tried(model, kernel, capsys):
    found = sweep_network(model, [kernel], Range("batch", (2, 4, 6)), fix=True)
    assert found.tried >= len(found.fixes) >= 1
    for fix in found.fixes:
        assert sweep_network(model, [fix.engine], Range("batch", (2, 4, 6))).invariant
    assert main(["sweep", str(model), "--size", "batch={2,4,6}", "--on", kernel, "--fix"]) == 1
    fixes = capsys.readouterr().out
    assert f"--on {found.fixes[0].engine}: the same bits at every point (tried here)" in fixes
    assert "--size 'batch={2,4,6}'" in fixes


def test_items_that_only_larger_batches_have_count_too(tmp_path):
    """Rows in blocks of four; what is left over is added the other way round: items 0 to 3 never are."""
    (tmp_path / "blocks.py").write_text(
        textwrap.dedent(
            """
            import numpy as np

            def blocks(problem, operands):
                x, w = operands["x"], operands["w"]
                total = np.zeros((*x.shape[:-1], w.shape[-1]), np.float32)
                whole = len(x) // 4 * 4
                for rows, step in ((slice(0, whole), 1), (slice(whole, None), -1)):
                    for k in range(x.shape[-1])[::step]:
                        total[rows] += x[rows, k : k + 1] * w[k]
                return total
            """
        )
    )
    graph = make_model([node("MatMul", ["x", "w"], ["y"])], {"x": ["batch", 64]}, ["y"], {"w": random((64, 16), 2)})
    model = save(graph, tmp_path / "one.onnx")
    found = sweep_network(model, [f"{tmp_path}/blocks.py:blocks"], Range("batch", (4, 5, 6, 7, 8)))
    assert (len(found.classes), found.invariant) == (1, False)
    assert found.uneven == [{"batch": [5, 7]}]
    assert "the bits of the first 4 items do not depend" in found.summary
    assert "5 to 7" in found.summary


def test_a_batch_without_a_name_is_the_first_axis(tmp_path, kernel):
    found = sweep_network(save(two_products(batch=None), tmp_path / "net.onnx"), [kernel], UP_TO_SIX)
    assert [one.sizes for one in found.classes] == [[[1, 3]], [[4, 6]]]


def test_a_sum_over_the_batch_is_no_item(tmp_path):
    """What is added over all items changes with them, as it should: no unit is named, and nothing can be told."""
    nodes = [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)]
    model = make_model(nodes, {"x": ["batch", 16]}, ["y"], {"axes": np.array([0], np.int64)})
    found = sweep_network(save(model, tmp_path / "net.onnx"), ["onnxruntime"], UP_TO_SIX)
    assert (found.invariant, found.classes, found.units) == (None, [], [])
    assert "nothing was compared" in found.summary


@pytest.mark.parametrize(
    ("batch", "says"),
    [
        (Range("rows", (1, 2)), "called 'rows'; those that are open have the names batch"),
        (Range("batch", (0, 2)), "from 1 on"),
    ],
)
def test_what_is_no_batch_is_said_in_a_line(model, batch, says):
    with pytest.raises((ArgumentError, ModelError), match=says) as refused:
        sweep_network(model, ["onnxruntime"], batch)
    assert "\n" not in str(refused.value)


def test_a_network_without_an_open_size_or_a_range_says_what_to_do(tmp_path, model, capsys):
    fixed = save(two_products(batch=4), tmp_path / "fixed.onnx")
    with pytest.raises(ModelError, match="every size of its inputs is given in the file: export it with an open batch"):
        sweep_network(fixed, ["onnxruntime"], UP_TO_SIX)
    assert main(["sweep", str(model), "--on", "onnxruntime"]) == 2
    assert 'swept over one of its sizes: --size "batch={1..8}"' in capsys.readouterr().err


def test_an_engine_that_fails_is_a_finding_at_its_size(model, tmp_path):
    (tmp_path / "odd.py").write_text(
        "def odd(problem, operands):\n    assert len(operands['x']) != 2\n    return operands['x'] @ operands['w']\n"
    )
    found = sweep_network(model, [f"{tmp_path}/odd.py:odd"], Range("batch", (1, 2, 3)))
    (failed,) = found.failures
    assert failed.at == {"batch": 2}
    assert sum(one.points for one in found.classes) == 2


def test_the_command_says_it_with_an_exit_status(model, kernel, capsys):
    def run(*given):
        status = main(["sweep", str(model), "--size", *given])
        return status, *capsys.readouterr()

    status, out, _ = run("batch={1..6}", "--on", kernel)
    assert status == 1
    assert "1 to 3 | 4 to 6" in " ".join(out.split())
    assert 'samebits sweep "matmul x=6x64 w=64x16 dtype=float32" --batch-invariant' in out
    status, out, _ = run("batch={1,4}", "--on", "emulate:direct", "--json")
    assert status == 0
    assert json.loads(out)["classes"][0]["cells"] == [{"batch": [1, 4]}]
    status, _, said = run("batch=4", "--on", "emulate:direct")
    assert (status, said.count("\n")) == (2, 1)
    assert "--size batch={1..8}" in said
    # As a shell hands on {1..3} without quotes.
    status, _, said = run("batch=1", "batch=2", "batch=3", "--on", "emulate:direct")
    assert (status, said) == (2, "samebits: the shell wrote the braces out: quote them, --size 'batch={1..8}'\n")
    for option in ("--batch-invariant", "--no-recipes", "--resume"):
        status, _, said = run("batch={1,4}", "--on", "emulate:direct", option)
        assert (status, said.count("\n")) == (2, 1)


@pytest.mark.needs("torch", "onnxruntime")
def test_a_module_has_the_classes_that_plain_torch_has(tmp_path):
    (tmp_path / "net.py").write_text(
        textwrap.dedent("""
        import torch
        from torch import nn

        def make():
            torch.manual_seed(0)
            layers = [nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)]
            return nn.Sequential(*layers).eval(), torch.randn(1, 512)
        """)
    )
    found = sweep_network(f"{tmp_path}/net.py:make", ["torch"], UP_TO_SIX)
    # In a process of its own: threads and modes that other tests set change bits.
    plain = textwrap.dedent("""
        import json, sys, torch
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).eval()
        items = torch.randn(6, 512)
        with torch.no_grad():
            print(json.dumps({n: module(items[:n])[0].numpy().tobytes().hex() for n in json.loads(sys.argv[1])}))
        """)
    command = [sys.executable, "-c", plain, json.dumps(list(UP_TO_SIX.values))]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    bits = {int(n): own for n, own in json.loads(said).items()}
    expected = {tuple(n for n in bits if bits[n] == own) for own in bits.values()}
    assert {tuple(n for a, b in one.sizes for n in range(a, b + 1)) for one in found.classes} == expected


KERAS = """
import json, os, sys
import keras, numpy as np

def make():
    draw = np.random.default_rng(0).standard_normal
    a, b = keras.Input((200,)), keras.Input((56,))
    y = keras.layers.Dense(512, activation="relu")(keras.layers.Concatenate()([a, b]))
    model = keras.Model([a, b], keras.layers.Dense(10)(y))
    model.set_weights([draw(w.shape).astype("float32") for w in model.get_weights()])
    return model, tuple(draw((3, n)).astype("float32") for n in (200, 56))

if __name__ == "__main__":
    model, inputs = make()
    items = [np.concatenate([i, i]) for i in inputs]
    bits = {n: np.asarray(model([i[:n] for i in items]))[0].tobytes().hex() for n in range(1, 7)}
    print(json.dumps(bits))
"""


@pytest.mark.needs("torch", "tensorflow", "onnxruntime")
def test_a_keras_model_has_the_classes_that_plain_keras_has(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(KERAS)
    found = sweep_network(f"{file}:make", ["tensorflow"], UP_TO_SIX)
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
    said = subprocess.run([sys.executable, file], check=True, capture_output=True, text=True, env=environment).stdout
    bits = {int(n): own for n, own in json.loads(said).items()}
    expected = {tuple(n for n in bits if bits[n] == own) for own in bits.values()}
    assert {tuple(n for a, b in one.sizes for n in range(a, b + 1)) for one in found.classes} == expected
    assert not found.failures
