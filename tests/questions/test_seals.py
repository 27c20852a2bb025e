"""Seals: what is written down, what a check says on the same and on other arithmetic, and files that are none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import numpy as np
import pytest

import samebits
from samebits.cli import main
from samebits.errors import ArgumentError, SealError
from samebits.findings import json_from_finding
from samebits.questions.seal.seal_file import digest_seal, read_seal, write_seal
from samebits.questions.seal.seal_schema import Seal

LINEAR, CONV = "linear x=3x40 w=8x40 bias", "conv1d x=1x4x20 w=6x4x3"
ORDERS = ("emulate:direct", "emulate:direct order=pairs:k", "emulate:direct product=rounded")


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    path = tmp_path / "net.seal"
    samebits.seal([LINEAR, CONV], "emulate:direct", output=path)
    return path


@pytest.mark.parametrize("there", ORDERS)
@pytest.mark.parametrize("here", ORDERS)
def test_the_same_arithmetic_holds_and_other_is_named(there: str, here: str) -> None:
    """Emulators whose recipes are known: the seal holds just where they are one."""
    found = samebits.check(samebits.seal(LINEAR, there), here)
    assert found.holds is (there == here)
    assert found.units[0].outcome == ("same" if there == here else "different")
    assert (f"engine: {there} where it was sealed, {here} here" in [e.says for e in found.evidence]) is (there != here)


def test_bits_without_a_recipe_promise_no_more_than_was_tried() -> None:
    found = samebits.check(samebits.seal("attention q=1x2x5x16 k=1x2x9x16 causal", "numpy"))
    assert found.holds
    assert found.units[0].outcome == "same-tried"
    assert "on what was tried" in found.summary


def test_a_kernel_that_differs_on_one_problem_is_named(sealed: Path, tmp_path: Path) -> None:
    seal = read_seal(sealed)
    # As of another machine: one problem's bits are others.
    changed = msgspec.structs.replace(
        seal, units=[seal.units[0], msgspec.structs.replace(seal.units[1], digests=["0" * 32, "1" * 32])]
    )
    found = samebits.check(msgspec.structs.replace(changed, content=digest_seal(changed)))
    assert [unit.outcome for unit in found.units] == ["same", "different"]
    assert CONV.split()[0] in found.summary
    assert found.holds is False


def test_the_commands_say_it_with_an_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "two.seal")
    assert main(["seal", LINEAR, CONV, "--on", "emulate:direct", "-o", path]) == 0
    assert "2 problems sealed, 2 by recipe" in " ".join(capsys.readouterr().out.split())
    assert main(["check", path]) == 0
    assert "2 of 2 problems for every input" in " ".join(capsys.readouterr().out.split())
    assert main(["check", path, "--on", "emulate:direct acc=float16", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "samebits.check/1"
    assert document["holds"] is False
    assert {unit["outcome"] for unit in document["units"]} == {"different"}
    # Words without quotes are one problem.
    assert main(["seal", *LINEAR.split(), "--on", "emulate:direct", "-o", path, "--json"]) == 0
    assert [unit["problem"] for unit in json.loads(capsys.readouterr().out)["units"]] == [f"{LINEAR} dtype=float32"]


def test_findings_are_documents(sealed: Path, tmp_path: Path) -> None:
    seal, found = read_seal(sealed), samebits.check(sealed)
    for one, says in ((seal, "What is promised"), (found, "for every input")):
        one.save(tmp_path / "page.html")
        assert says in (tmp_path / "page.html").read_text()
        one.save(tmp_path / "found.json")
        assert samebits.load(tmp_path / "found.json").summary == one.summary


def test_a_seal_is_the_same_file_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        samebits.seal(LINEAR, "emulate:direct", output=tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.needs("onnxruntime")
def test_a_model_is_sealed_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(0)

    def build(path: Path, scale: float) -> Path:
        weights = [
            numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
            for name, shape in (("w1", (6, 3, 3, 3)), ("w2", (6, 6, 1, 1)))
        ]
        nodes = [
            helper.make_node("Conv", ["x", "w1"], ["a"], "first", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"], "relu"),
            helper.make_node("Conv", ["b", "w2"], ["c"], "second"),
            helper.make_node("LeakyRelu", ["c"], ["y"], "last", alpha=scale),
        ]
        x, y = (
            helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", (1, 3, 9, 9)), ("y", (1, 6, 9, 9)))
        )
        graph = helper.make_graph(nodes, "g", [x], [y], weights)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    model, other = build(tmp_path / "net.onnx", 0.1), build(tmp_path / "other.onnx", 0.1)
    path = str(tmp_path / "net.seal")
    assert main(["seal", str(model), "--on", "onnxruntime", "-o", path]) == 0
    seal = read_seal(path)
    assert seal.model is not None
    assert sorted(node for unit in seal.units for node in unit.used_by) == ["first", "second"]
    assert [output.name for output in seal.model.outputs] == ["y"]
    assert main(["check", path, str(model)]) == 0
    # Without the model its outputs are not tried: that is no answer.
    assert main(["check", path]) == 2
    capsys.readouterr()
    assert main(["check", path, str(other)]) == 2
    assert "is not the model that was sealed" in capsys.readouterr().err
    # An output of other bits, where every product is as sealed.
    changed = msgspec.structs.replace(
        seal.model, outputs=[msgspec.structs.replace(seal.model.outputs[0], digest="0" * 32)]
    )
    broken = msgspec.structs.replace(seal, model=changed)
    found = samebits.check(msgspec.structs.replace(broken, content=digest_seal(broken)), model=model)
    assert found.holds is False
    assert "the model's y has other bits" in found.summary
    # A seal that names an output which the model has not.
    changed = msgspec.structs.replace(seal.model, outputs=[msgspec.structs.replace(seal.model.outputs[0], name="none")])
    broken = msgspec.structs.replace(seal, model=changed)
    found = samebits.check(msgspec.structs.replace(broken, content=digest_seal(broken)), model=model)
    assert [output.outcome for output in found.outputs] == ["failed"]
    assert found.holds is None
    assert found.summary.endswith("it did not compute the model's none.")


def _write(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, held in members.items():
            archive.writestr(name, held)
    return path


def test_files_that_are_no_seal_are_one_line(sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seal = read_seal(sealed)
    text = json_from_finding(seal)
    whole = sealed.read_bytes()
    (tmp_path / "cut.seal").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.seal").write_text("a seal")
    (tmp_path / "folder.seal").mkdir()
    files = {
        "cut.seal": "no zip archive",
        "text.seal": "which is a zip archive",
        "folder.seal": "folder.seal",
        "none.seal": "No such file",
        _write(tmp_path / "other.seal", {"seal.json": text.encode(), "../evil.py": b""}).name: "holds seal.json alone",
        _write(tmp_path / "code.seal", {"__main__.py": b"print(1)"}).name: "holds seal.json alone",
        _write(
            tmp_path / "newer.seal", {"seal.json": text.replace("seal/1", "seal/2").encode()}
        ).name: "another release",
        _write(tmp_path / "foreign.seal", {"seal.json": b'{"schema": "x"}'}).name: "no seal of samebits",
        _write(tmp_path / "changed.seal", {"seal.json": text.replace("float32", "float16").encode()}).name: "digest",
        _write(tmp_path / "bytes.seal", {"seal.json": b"\xff\xfe\x00"}).name: "no seal of samebits",
        _write(tmp_path / "deep.seal", {"seal.json": b"[" * 100_000}).name: "no seal of samebits",
        _write(tmp_path / "lacks.seal", {"seal.json": b'{"schema": "samebits.seal/1"}'}).name: "no seal of samebits",
    }
    for name, says in files.items():
        assert main(["check", str(tmp_path / name)]) == 2, name
        error = capsys.readouterr().err
        assert says in error, (name, error)
        assert "Traceback" not in error
    assert not (tmp_path.parent / "evil.py").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.seal"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("seal.json", b" " * (2**26 + 10))
    with pytest.raises(SealError, match="larger than any seal"):
        read_seal(path)


@pytest.mark.parametrize(
    ("subject", "on", "says"),
    [
        ([], "numpy", "problems or one model"),
        (["a.onnx", "b.onnx"], "numpy", "one model at a time"),
        ("net.py:make", "numpy", "export the module first"),
    ],
)
def test_what_is_not_sealed_is_said(subject: object, on: str, says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        samebits.seal(subject, on)  # type: ignore[arg-type]  (what a person may give)


def test_an_engine_that_fails_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "half.seal"
    samebits.seal(["conv1d x=1x2x9 w=2x2x3", LINEAR], "emulate:direct", output=path)
    # NumPy has no convolutions.
    assert main(["check", str(path), "--on", "numpy", "--json"]) in (1, 2)
    outcomes = [unit["outcome"] for unit in json.loads(capsys.readouterr().out)["units"]]
    assert outcomes[0] == "failed"
    assert main(["seal", "conv1d x=1x2x9 w=2x2x3", "--on", "numpy", "-o", str(path)]) == 2
    assert "no convolutions" in capsys.readouterr().err


def test_a_seal_of_problems_has_no_model(sealed: Path, tmp_path: Path) -> None:
    with pytest.raises(SealError, match="it has no model"):
        samebits.check(sealed, model=tmp_path / "net.onnx")


def test_a_seal_that_cannot_be_written_is_trouble(tmp_path: Path) -> None:
    seal = samebits.seal(LINEAR, "emulate:direct")
    assert isinstance(seal, Seal)
    with pytest.raises(SealError, match="cannot be written"):
        write_seal(tmp_path / "no folder" / "net.seal", seal)


@pytest.mark.parametrize("engine", ["numpy:python=./evil.sh", "./mine.py:f", "numpy:env.LD_PRELOAD=x"])
def test_a_file_chooses_no_code_programs_or_variables(
    engine: str, sealed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    seal = msgspec.structs.replace(read_seal(sealed), engine=engine)
    write_seal(sealed, msgspec.structs.replace(seal, content=digest_seal(seal)))
    assert main(["check", str(sealed)]) == 2
    said = capsys.readouterr().err
    assert "only a person chooses" in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "ran").exists()
    # Where a person names an engine, the file's is not opened.
    assert main(["check", str(sealed), "--on", "emulate:direct"]) == 0


@pytest.mark.parametrize(
    "problem", ["matmul x=800000x800000 w=800000x800000", "attention q=1x1x4000000x1 k=1x1x4000000x1"]
)
def test_a_problem_too_large_is_refused_before_anything_is_allocated(
    problem: str, sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seal = read_seal(sealed)
    seal = msgspec.structs.replace(seal, units=[msgspec.structs.replace(seal.units[0], problem=problem)])
    write_seal(sealed, msgspec.structs.replace(seal, content=digest_seal(seal)))
    assert main(["check", str(sealed)]) == 2
    said = capsys.readouterr().err
    assert "GiB" in said
    assert len(said.strip().splitlines()) == 1


@pytest.mark.parametrize("changes", [{"units": []}, {"seed": -1}])
def test_a_seal_of_nothing_is_none(
    changes: dict[str, object], sealed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seal = msgspec.structs.replace(read_seal(sealed), **changes)
    write_seal(sealed, msgspec.structs.replace(seal, content=digest_seal(seal)))
    assert main(["check", str(sealed)]) == 2
    assert "no seal of samebits" in capsys.readouterr().err


def test_another_model_is_refused_before_anything_runs(sealed: Path, tmp_path: Path) -> None:
    """What was to be checked would take long; here even an engine that cannot be opened is not reached."""
    with pytest.raises(SealError, match="it has no model"):
        samebits.check(sealed, "torch:no_such=1", model=tmp_path / "net.onnx")
