"""Running a seal: the engine's bits without the engine, what is close only, and seals that cannot be run."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, save

import samebits
from networks.network_building import make_model, node, random
from samebits.cli import main
from samebits.errors import ArgumentError, ModelError, SamebitsError, SealError
from samebits.numbers.ulps import digest_bits
from samebits.questions.seal.seal_file import digest_seal
from samebits.questions.seal.seal_schema import Seal, SealedModel, SealedStep

LINEAR, CONV = "linear x=3x40 w=8x40 bias", "conv1d x=1x4x20 w=6x4x3"


def _sign(seal: Seal, **changed) -> Seal:
    """The seal with other parts and their digest, as somebody may write it."""
    other = msgspec.structs.replace(seal, **changed)
    return msgspec.structs.replace(other, content=digest_seal(other))


def _change_step(seal: Seal, number: int, **changed) -> Seal:
    model = seal.model
    assert model is not None
    steps = list(model.steps)
    steps[number] = msgspec.structs.replace(steps[number], **changed)
    return _sign(seal, model=msgspec.structs.replace(model, steps=steps))


def test_problems_are_executed_by_their_recipes() -> None:
    sealed = samebits.seal([LINEAR, CONV], "emulate:direct product=rounded")
    found = samebits.run(sealed)
    assert found.holds
    assert [output.name for output in found.outputs] == [unit.problem for unit in sealed.units]
    assert all(output.is_exact for output in found.outputs)
    x, w, bias = random((3, 40), 1), random((8, 40), 2), random((8,), 3)
    # One product after the other, each rounded, then the bias: by plain NumPy.
    wanted = np.zeros((3, 8), np.float32)
    for k in range(40):
        wanted = wanted + x[:, k, None] * w[None, :, k]
    other = samebits.run(sealed, {"x": x, "w": w, "bias": bias})
    assert other.holds is None
    assert other.outputs[0].digest == digest_bits(wanted + bias)


def test_another_recipe_does_not_give_the_sealed_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sealed = samebits.seal(LINEAR, "emulate:direct")
    unit = msgspec.structs.replace(sealed.units[0], recipe="direct product=rounded acc=float32")
    changed = _sign(sealed, units=[unit])
    found = samebits.run(changed)
    assert found.holds is False
    from samebits.questions.seal.seal_file import write_seal

    write_seal(tmp_path / "a.seal", changed)
    assert main(["run", str(tmp_path / "a.seal")]) == 1
    assert "Not the sealed bits" in " ".join(capsys.readouterr().out.split())


def test_operands_that_fit_no_problem() -> None:
    sealed = samebits.seal(LINEAR, "emulate:direct")
    with pytest.raises(ArgumentError, match="fit no sealed problem"):
        samebits.run(sealed, {"x": random((3, 41), 1), "w": random((8, 40), 2)})
    with pytest.raises(SealError, match=r"cannot be (read|executed)"):
        samebits.run(_sign(sealed, units=[msgspec.structs.replace(sealed.units[0], recipe="direct acc=float99")]))
    with pytest.raises(SealError, match="has a recipe"):
        samebits.run(_sign(sealed, units=[msgspec.structs.replace(sealed.units[0], recipe=None)]))
    with pytest.raises(SealError, match="digests belong"):
        samebits.run(_sign(sealed, units=[msgspec.structs.replace(sealed.units[0], digests=["0"])]))
    with pytest.raises(ArgumentError, match="arrays by name"):
        samebits.run(sealed, [1, 2])  # type: ignore[arg-type]  (as somebody may call it)
    with pytest.raises(SealError, match="has no model"):
        samebits.run(sealed, model="net.onnx")


def test_operands_that_fit_several_problems_are_refused() -> None:
    sealed = samebits.seal(["matmul x=8x8 w=8x8", "linear x=8x8 w=8x8"], "emulate:direct")
    with pytest.raises(ArgumentError, match="fit 2 sealed problems"):
        samebits.run(sealed, {"x": random((8, 8), 1), "w": random((8, 8), 2)})


def test_what_has_no_recipe_is_open() -> None:
    sealed = samebits.seal(["matmul x=3x8 w=8x4", "attention q=1x1x4x8 k=1x1x4x8"], "numpy")
    found = samebits.run(sealed)
    assert found.holds is None
    assert "1 of 2 problems" in found.summary
    assert "has no recipe" in found.summary
    assert found.outputs[0].shape == [3, 4]


def _build(path: Path, *, random_like: bool = False) -> Path:
    """A convolution, a pool, a product, and a function that libraries compute each in its own way."""
    constants = {"w": random((6, 3, 3, 3), 1), "v": random((24, 5), 2), "c": random((5,), 3), "to": np.array([2, 24])}
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("MaxPool", ["b"], ["p"], kernel_shape=[4, 4], strides=[4, 4]),
        node("Reshape", ["p", "to"], ["f"]),
        node("MatMul", ["f", "v"], ["m"]),
        node("Add", ["m", "c"], ["n"]),
        node("Softsign" if random_like else "Sigmoid", ["n"], ["y"]),
    ]
    save(make_model(nodes, {"x": (2, 3, 8, 8)}, ["n", "y"], constants), path)
    return path


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Seal]:
    path = _build(tmp_path_factory.mktemp("sealed") / "net.onnx")
    return path, samebits.seal(path, "onnxruntime", output=path.with_suffix(".seal"))


def _model(seal: Seal) -> SealedModel:
    assert seal.model is not None
    return seal.model


@pytest.mark.needs("onnxruntime")
def test_a_model_runs_without_its_engine(
    sealed: tuple[Path, Seal], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seal = sealed
    x = random((2, 3, 8, 8), 17)
    import onnxruntime

    wanted = onnxruntime.InferenceSession(str(path)).run(["n", "y"], {"x": x})

    def refuse(*words: object, **more: object) -> None:
        raise AssertionError("an engine was opened")

    monkeypatch.setattr("samebits.engines.workers.process.WorkerRunner.__init__", refuse)
    np.savez(tmp_path / "in.npz", x=x)
    found = samebits.run(path.with_suffix(".seal"), tmp_path / "in.npz", model=path, output=tmp_path / "out.npz")
    exact = {output.name: output.is_exact for output in found.outputs}
    assert exact["n"], "products, maxima and sums have one result"
    with np.load(tmp_path / "out.npz") as stored:
        for name, array in zip(("n", "y"), wanted, strict=True):
            assert stored[name].dtype == array.dtype
            assert not exact[name] or stored[name].tobytes() == array.tobytes()
            assert np.abs(stored[name] - array).max() < 1e-6
    own = samebits.run(seal, model=path)
    assert own.holds is all(step.is_exact for step in _model(seal).steps)


@pytest.mark.needs("onnxruntime")
def test_what_was_not_reproduced_is_close_only(sealed: tuple[Path, Seal]) -> None:
    path, seal = sealed
    first = _model(seal).steps[0]
    replay = msgspec.structs.replace(first.replay, matched=0.5)
    found = samebits.run(_change_step(seal, 0, replay=replay), {"x": random((2, 3, 8, 8), 5)}, model=path)
    assert not any(output.is_exact for output in found.outputs)
    assert found.summary.startswith("Close to onnxruntime")
    assert first.unit in found.summary


def _list_broken() -> list[tuple[dict[str, object], str]]:
    return [
        ({"nodes": ["nowhere"]}, "does not compute"),
        ({"outputs": ["nowhere"]}, "does not compute"),
        ({"nodes": []}, "speaks of"),
        ({"functions": "libm"}, "manner that is unknown"),
        ({"means": "3 by dice"}, "manner that is unknown"),
        ({"recipe": "direct acc=?"}, "cannot be read"),
        ({"form": "magic"}, "cannot be computed"),
        ({"outputs": ["y"]}, "does not make|makes|cannot be computed"),
    ]


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize(("changed", "says"), _list_broken())
def test_strangers_seals_get_one_line(sealed: tuple[Path, Seal], changed: dict[str, object], says: str) -> None:
    path, seal = sealed
    with pytest.raises(SamebitsError, match=says):
        samebits.run(_change_step(seal, 0, **changed), model=path)


@pytest.mark.needs("onnxruntime")
def test_other_models_inputs_and_files(
    sealed: tuple[Path, Seal], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, seal = sealed
    file = str(path.with_suffix(".seal"))
    with pytest.raises(ArgumentError, match="give that file"):
        samebits.run(seal)
    with pytest.raises(SealError, match="not the model that was sealed"):
        samebits.run(seal, model=_build(tmp_path / "other.onnx", random_like=True))
    with pytest.raises(ModelError, match="shape"):
        samebits.run(seal, {"x": random((3, 3, 8, 8), 1)}, model=path)
    with pytest.raises(SealError, match="no steps"):
        samebits.run(_sign(seal, model=msgspec.structs.replace(_model(seal), steps=[])), model=path)
    (tmp_path / "in.npz").write_bytes(b"PK\x03\x04 nothing")
    for words in (
        [file, str(path), str(tmp_path / "in.npz")], [file, str(path), str(path)], [file, str(path), "-o", "out.txt"],
        [file, str(path), str(tmp_path / "none.npz")],
    ):  # fmt: skip
        assert main(["run", *words]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) >= 1
    assert main(["run", file, str(path), "--json"]) == (0 if samebits.run(seal, model=path).holds else 1)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "samebits.run/1"
    assert {step["name"] for step in document["steps"]} == {step.unit for step in _model(seal).steps}


@pytest.mark.needs("onnxruntime")
def test_the_finding_is_a_document(sealed: tuple[Path, Seal], tmp_path: Path) -> None:
    path, seal = sealed
    found = samebits.run(seal, model=path)
    found.save(tmp_path / "run.html")
    assert "Units" in (tmp_path / "run.html").read_text()
    found.save(tmp_path / "run.json")
    assert samebits.load(tmp_path / "run.json").summary == found.summary
    assert str(found).count("\n") < 60


@pytest.mark.needs("onnxruntime")
def test_steps_are_named_by_values_that_the_model_has(sealed: tuple[Path, Seal]) -> None:
    path, seal = sealed
    made = {value for one in onnx.load(path).graph.node for value in one.output}
    for step in _model(seal).steps:
        assert isinstance(step, SealedStep)
        assert set(step.nodes) | set(step.outputs) <= made


def _save_model(
    path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, tuple[int, ...]], outputs: list[str]
) -> Path:
    """A model with a product beside these nodes, as a seal needs one."""
    constants = {"weights": random((4, 3), 9), "one": random((3, 4), 8)}
    save(make_model([*nodes, node("MatMul", ["one", "weights"], ["z"])], inputs, [*outputs, "z"], constants), path)
    return path


@pytest.mark.needs("onnxruntime")
def test_orders_that_look_alike_are_not_said_to_be_exact(tmp_path: Path) -> None:
    """Four means of seven numbers do not tell how they are added: some order gives them, and others elsewhere."""
    nodes = [node("GlobalAveragePool", ["x"], ["y"])]
    path = _save_model(tmp_path / "mean.onnx", nodes, {"x": (1, 1, 1, 7)}, ["y"])
    seal = samebits.seal(path, "onnxruntime")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    for seed in range(100, 130):
        x = random((1, 1, 1, 7), seed)
        (output, _) = samebits.run(seal, {"x": x}, model=path).outputs
        assert not output.is_exact or output.digest == digest_bits(session.run(["y"], {"x": x})[0])


@pytest.mark.needs("onnxruntime")
def test_products_without_a_recipe_are_close_however_near(sealed: tuple[Path, Seal]) -> None:
    path, seal = sealed
    number = next(i for i, step in enumerate(_model(seal).steps) if step.has_products)
    found = samebits.run(
        _change_step(seal, number, recipe=None, form="nodes"), {"x": random((2, 3, 8, 8), 5)}, model=path
    )
    assert not found.steps[number].is_exact
    assert "correctly rounded" in found.steps[number].says
    assert not any(output.is_exact for output in found.outputs)


@pytest.mark.needs("onnxruntime")
def test_constant_outputs_are_compared_before_they_are_called_exact(tmp_path: Path) -> None:
    """What a file computes of constants alone the engine folds in its own way."""
    values = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(random((500,), 3)))
    path = _save_model(
        tmp_path / "k.onnx", [values, node("Exp", ["c"], ["k"]), node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["k", "y"]
    )
    seal = samebits.seal(path, "onnxruntime")
    import onnxruntime

    wanted = onnxruntime.InferenceSession(str(path)).run(["k", "y"], {"x": random((2, 3), 5)})
    found = {o.name: o for o in samebits.run(seal, {"x": random((2, 3), 5)}, model=path).outputs}
    assert found["y"].is_exact
    assert found["k"].is_exact is (found["k"].digest == digest_bits(wanted[0]))


@pytest.mark.needs("onnxruntime")
def test_another_branch_is_refused(tmp_path: Path) -> None:
    def branch(operator: str) -> onnx.GraphProto:
        made = helper.make_tensor_value_info("t", 1, None)
        return helper.make_graph([helper.make_node(operator, ["x"], ["t"])], operator, [], [made])

    choice = helper.make_node("If", ["flag"], ["y"], then_branch=branch("Softplus"), else_branch=branch("Relu"))
    model = onnx.load(_save_model(tmp_path / "if.onnx", [choice], {"x": (2, 8)}, ["y"]))
    model.graph.input.append(helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, ()))
    save(model, tmp_path / "if.onnx")
    seal = samebits.seal(tmp_path / "if.onnx", "onnxruntime")
    x = random((2, 8), 1)
    said: list[str] = []
    for flag in (True, False):
        with contextlib.suppress(SealError):
            said.append(samebits.run(seal, {"x": x, "flag": np.array(flag)}, model=tmp_path / "if.onnx").summary)
    assert len(said) == 1, "the branch that was sealed, and no other"


@pytest.mark.needs("onnxruntime")
def test_shapes_that_a_manner_does_not_take_cost_the_unit_alone(tmp_path: Path) -> None:
    for name, nodes, inputs in (
        ("empty", [node("GlobalAveragePool", ["x"], ["y"])], {"x": (0, 3, 2, 2)}),
        ("unnamed", [helper.make_node("LSTM", ["x", "lw", "lr"], ["", "y"], hidden_size=3)], {"x": (4, 1, 2)}),
    ):
        path = tmp_path / f"{name}.onnx"
        _save_model(path, nodes, inputs, ["y"])
        model = onnx.load(path)
        for weight, shape in (("lw", (1, 12, 2)), ("lr", (1, 12, 3))):
            model.graph.initializer.append(numpy_helper.from_array(random(shape, 1), weight))
        save(model, path)
        seal = samebits.seal(path, "onnxruntime")
        if _model(seal).steps:
            found = samebits.run(seal, model=path)
            assert {output.name for output in found.outputs} == {"y", "z"}
