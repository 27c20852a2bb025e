"""Exported programs of strangers: nothing in them is unpickled, evaluated or called, and sound ones are read."""

import io
import json
import pickle
import random
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from samebits.cli import main
from samebits.engines.adapters.program_file import check_pickle, copy_cleanly
from samebits.engines.adapters.program_graph import ProgramRefused, check_expression, check_operator
from samebits.errors import ResourceLimitError

pytestmark = pytest.mark.needs("torch")
torch = pytest.importorskip("torch")
nn = torch.nn


class Reshaping(nn.Module):
    """Sizes with arithmetic in them."""

    def forward(self, x):
        b, c, h, w = x.shape
        return x.reshape(b, c // 2, 2, h * w).transpose(1, 2).reshape(b, -1), x.new_zeros(2 * b + 1, h * w * 3)


class Keyed(nn.Module):
    """Names with dashes in it, keys that are no identifiers, a size that is a multiple."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"my-key": nn.Linear(4, 4)})

    def forward(self, x):
        return {"a/b": self.layers["my-key"](x), "ünï": x.reshape(x.shape[0] // 8, 8, 4)}


class Branching(nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


class Named(nn.Module):
    """Nested arguments, some by keyword, and a constant of its own."""

    def forward(self, given, *, scale):
        return {"out": given["a-b"][0] * scale + torch.tensor([1.0, 2.0, 3.0]), "more": [given["c"]]}


class Counted(nn.Module):
    def forward(self, x):
        n = x[0].item()
        torch._check(n > 0)
        torch._check(n < 10)
        return torch.ones(n) + 1


BATCH = torch.export.Dim("batch", min=2, max=64)
PROGRAMS = {
    "lstm": (nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), (torch.ones(2, 5, 8),), {}, None),
    "transformer": (nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), (torch.ones(2, 6, 16),), {}, None),
    "network": (
        nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish(), nn.AdaptiveAvgPool2d(1)),
        (torch.ones(2, 3, 16, 16),), {}, ({0: BATCH},),
    ),
    "reshaping": (Reshaping(), (torch.ones(2, 4, 6, 7),), {}, {"x": dict.fromkeys((0, 2, 3), torch.export.Dim.AUTO)}),
    "branching": (Branching(), (torch.ones(3),), {}, None),
    "bfloat16": (nn.Linear(8, 4).bfloat16(), (torch.ones(2, 8).bfloat16(),), {}, None),
    "named": (Named(), ({"a-b": [torch.ones(3)], "c": torch.ones(2)},), {"scale": torch.ones(3)}, None),
    "keyed": (Keyed(), (torch.ones(16, 4),), {}, {"x": {0: 8 * torch.export.Dim("n", min=1, max=9)}}),
    "counted": (Counted(), (torch.tensor([3]),), {}, None),
    "embedding": (nn.Sequential(nn.Embedding(10, 4), nn.GRU(4, 4)), (torch.tensor([[1, 2]]),), {}, None),
}  # fmt: skip


def save(path, module, args=(), kwargs=None, shapes=None):
    program = torch.export.export(module.eval(), args, kwargs or {}, dynamic_shapes=shapes)
    torch.export.save(program, str(path))
    return path


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A linear layer, exported."""
    return save(tmp_path_factory.mktemp("plain") / "plain.pt2", nn.Linear(8, 4), (torch.ones(3, 8),))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clean_copy_computes_the_same_bits(name, tmp_path, monkeypatch):
    path = save(tmp_path / "given.pt2", *PROGRAMS[name])
    copy_cleanly(path, tmp_path / "clean.pt2")
    # As the worker reads it.
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    results = []
    for file in (path, tmp_path / "clean.pt2"):
        program = torch.export.load(str(file))
        args, kwargs = program.example_inputs
        results.append(torch.utils._pytree.tree_leaves(program.module()(*args, **kwargs)))
    assert len(results[0]) == len(results[1]) > 0
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


class Touch:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def rewrite(path, target, change):
    """The archive with its entries changed: `change` is given them by their names behind the folder."""
    with zipfile.ZipFile(path) as archive:
        entries = {m.filename.partition("/")[2]: archive.read(m) for m in archive.infolist()}
    folder = Path(target).stem
    change(entries)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in entries.items():
            archive.writestr(f"{folder}/{name}", data)
    return target


def edit_graph(entries, edit):
    program = json.loads(entries["models/model.json"])
    edit(program)
    entries["models/model.json"] = json.dumps(program).encode()


def edit_text(entries, old, new, count=1):
    text = entries["models/model.json"].decode()
    assert re.search(old, text)
    entries["models/model.json"] = re.sub(old, lambda _: new, text, count=count).encode()


def save_by_torch(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def write_constants(entries, name, data, *, pickled=True):
    entries[f"data/constants/{name}"] = data
    config = {"config": {"c": {"path_name": name, "is_param": False, "use_pickle": pickled, "tensor_meta": None}}}
    entries["data/constants/model_constants_config.json"] = json.dumps(config).encode()


SYSTEM = "torch.os.system"
RUNS = "__import__('pathlib').Path('{mark}').touch()"
ATTACKS = {
    "sample inputs": lambda e, mark: e.update({"data/sample_inputs/model.pt": save_by_torch(Touch(mark))}),
    "sample inputs, plainly pickled": lambda e, mark: e.update(
        {"data/sample_inputs/model.pt": pickle.dumps(Touch(mark))}
    ),
    "weights": lambda e, mark: e.update({"data/weights/model.pt": save_by_torch({"weight": Touch(mark)})}),
    "a pickled constant": lambda e, mark: write_constants(e, "tensor_0", save_by_torch(Touch(mark))),
    "an opaque constant": lambda e, mark: write_constants(e, "opaque_obj_0", pickle.dumps(Touch(mark))),
    "an object of a class": lambda e, mark: write_constants(e, "custom_obj_0", save_by_torch(Touch(mark))),
    "a size": lambda e, mark: edit_text(e, r'\{"as_int": 3\}', json.dumps(
        {"as_expr": {"expr_str": RUNS.format(mark=mark), "hint": {"as_int": 3}}})),
    "a size by a class": lambda e, mark: edit_text(e, r'\{"as_int": 3\}', json.dumps(
        {"as_expr": {"expr_str": "().__class__.__base__.__subclasses__()", "hint": None}})),
    "an operator": lambda e, mark: edit_text(e, r"torch\.ops\.aten\.linear\.default", SYSTEM),
    "a library": lambda e, mark: edit_text(e, r"torch\.ops\.aten\.linear\.default", "torch.ops.load_library"),
    "a file as an operator": lambda e, mark: edit_text(
        e, r"torch\.ops\.aten\.linear\.default", "torch.ops.aten.from_file.default"),
    "an operator behind a class": lambda e, mark: edit_text(
        e, r"torch\.ops\.aten\.linear\.default", "torch.ops.aten.__class__.mro"),
    "a guard": lambda e, mark: edit_graph(e, lambda p: p.update(guards_code=[RUNS.format(mark=mark)])),
    "a name of an argument": lambda e, mark: edit_graph(e, lambda p: p["graph_module"]["module_call_graph"][0][
        "signature"].update(forward_arg_names=[f"input=({RUNS.format(mark=mark)})"])),
    "a name of a value": lambda e, mark: edit_text(e, '"input"', json.dumps(f"x=({RUNS.format(mark=mark)})"), 9),
    "an enumeration": lambda e, mark: edit_graph(e, lambda p: p["graph_module"]["module_call_graph"][0][
        "signature"].update(in_spec=json.dumps([1, {"type": "builtins.dict", "children_spec": [], "context":
        json.dumps([{"__enum__": True, "fqn": "antigravity:x", "name": "x"}])}]))),
    "an enumeration behind a key that stands twice": lambda e, mark: edit_graph(
        e, lambda p: p["graph_module"]["module_call_graph"][0]["signature"].update(in_spec=json.dumps([1, {
            "type": "builtins.dict", "children_spec": [], "context":
            '[{"a": {"__enum__": true, "fqn": "antigravity:d", "name": "A"}, "a": 1}]'}]))),
    "a printed text": lambda e, mark: edit_text(
        e, r"torch\.ops\.aten\.linear\.default", "torch.ops.aten._print.default"),
    "compiled code": lambda e, mark: e.update({"data/aotinductor/model/code.wrapper.so": b"\x7fELF"}),
    "two graphs": lambda e, mark: e.update({"models/other.json": e["models/model.json"]}),
}  # fmt: skip
# What is left out, so that the rest can be read.
HARMLESS_WITHOUT = ("a guard", "an enumeration behind a key that stands twice")


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_in_a_program_runs_before_it_is_refused(attack, plain, tmp_path):
    mark = tmp_path / "ran"
    file = rewrite(plain, tmp_path / "evil.pt2", lambda entries: ATTACKS[attack](entries, mark))
    if attack in HARMLESS_WITHOUT:
        copy_cleanly(file, tmp_path / "clean.pt2")
        clean = (tmp_path / "clean.pt2").read_bytes()
        assert str(mark).encode() not in clean
        assert b"__enum__" not in clean
        return
    with pytest.raises(ProgramRefused) as error:
        copy_cleanly(file, tmp_path / "clean.pt2")
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("attack", ["sample inputs", "a size", "a guard"])
def test_a_hostile_program_is_one_line_of_the_command_or_is_read_without_its_code(attack, plain, tmp_path, capfd):
    """In the worker, behind the command: nothing is run, whatever torch would do."""
    mark = tmp_path / "ran"
    file = rewrite(plain, tmp_path / "evil.pt2", lambda entries: ATTACKS[attack](entries, mark))
    status = main(["compare", str(file), "--on", "torch"])
    said = capfd.readouterr()
    assert not mark.exists()
    assert status == (0 if attack in HARMLESS_WITHOUT else 2)
    if status:
        assert "cannot be exported" in said.err
        assert len([line for line in said.err.splitlines() if not line.endswith("...")]) == 1


def test_torch_itself_would_run_it(plain, tmp_path):
    """The control: the files are as dangerous as they are meant to be."""
    mark = tmp_path / "ran"
    file = rewrite(plain, tmp_path / "evil.pt2", lambda entries: ATTACKS["sample inputs"](entries, mark))
    code = f"import torch; torch.export.load({str(file)!r})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode
    assert mark.exists()


def test_entries_that_stand_twice_or_are_compressed_are_refused(plain, tmp_path):
    with zipfile.ZipFile(plain) as archive:
        entries = [(m.filename, archive.read(m)) for m in archive.infolist()]
    for name, compression in (("twice", zipfile.ZIP_STORED), ("small", zipfile.ZIP_DEFLATED)):
        with zipfile.ZipFile(tmp_path / f"{name}.pt2", "w", compression) as archive:
            for i, (entry, data) in enumerate(entries):
                archive.writestr(entry, data)
                if i == 0 and name == "twice":
                    archive.writestr("other/" + entry.partition("/")[2], data)
        with pytest.raises(ProgramRefused, match=r"two entries|compressed"):
            copy_cleanly(tmp_path / f"{name}.pt2", tmp_path / "clean.pt2")


def test_sizes_beyond_what_is_stored_are_counted_before_they_are_made(plain, tmp_path):
    """A weight of 2^40 numbers without a byte of its own; a value of as many."""

    def grow(entries):
        config = json.loads(entries["data/weights/model_weights_config.json"])
        config["config"]["weight"]["tensor_meta"]["sizes"] = [{"as_int": 2**40}]
        entries["data/weights/model_weights_config.json"] = json.dumps(config).encode()

    with pytest.raises(ResourceLimitError, match="SAMEBITS_MOST_VALUE_BYTES"):
        copy_cleanly(rewrite(plain, tmp_path / "w.pt2", grow), tmp_path / "clean.pt2")
    file = rewrite(plain, tmp_path / "v.pt2", lambda e: edit_text(e, r'\{"as_int": 3\}', f'{{"as_int": {2**40}}}'))
    with pytest.raises(ResourceLimitError, match="SAMEBITS_MOST_VALUE_BYTES"):
        copy_cleanly(file, tmp_path / "clean.pt2")


@pytest.mark.parametrize(
    "text",
    [
        "s0", "s77 + 1", "2*s0 - 3", "s0**2", "Symbol('s77', positive=True, integer=True)", "FloorDiv(s0, 2)",
        "Mul(Integer(2), Symbol('u0', integer=True))", "Max(1, s0 - 2)", "(s0 + 1)//2", "Pow(Symbol('s0'), Integer(2))",
        "8*s85", "Float('0.5', precision=53)*s0", "Eq(s0, 4)", "s0 < 10", "And(s0 > 1, s1 < 3)", "-1", "1.5*s3", "oo",
    ],
)  # fmt: skip
def test_sizes_that_are_arithmetic_are_read(text):
    check_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "s0.__class__", "[s0]", "lambda: 0", "open('x')", "exec('x')", "f(s0)", "s0 if s1 else 2",
        "Symbol('__import__')", "Symbol('s0', **x)", "(yield)", "s0[0]", "'s0'", "9**9**9", "2**(10**9)", "s0**s1",
        "((9**9)**9)**9", "Pow(9, Pow(9, 9))", "LShift(1, 1000000000)",
        "10^10^9", "s0 ^ s1", "s0 @ s1", "Float(1, 2000000000)/3", "Float(1, 15, 2000000000)",
        "Float('1', precision=2000000000)", "Float('x()', precision=53)", "RoundDecimal(s0, 1000000000)",
        "1 << 1000000000", "Max(*s0)", "10**400",
        "s0" + "+s0" * 2000, "(" * 300 + "s0" + ")" * 300, "", "s0;s1", "x", "os", "max(1, 2)", "s0 := 1",
        "99999999999999999999999999", "Symbol(Symbol)", "Integer(Integer)(2)", "f'{s0}'", "not_", "e1_",
    ],
)  # fmt: skip
def test_sizes_that_are_more_than_arithmetic_are_refused(text):
    with pytest.raises(ProgramRefused):
        check_expression(text)


@pytest.mark.parametrize(
    "text",
    ["torch.ops.aten.add.Tensor", "torch.ops.aten._softmax.default", "torch.ops.aten.__and__.Scalar", "_operator.mul",
     "torch.ops.aten.relu_.default", "torch.ops.higher_order.cond", "torch.sym_max", "math.ceil",
     "torch.ops.prims.sin.default"],
)  # fmt: skip
def test_operators_that_compute_are_read(text):
    check_operator(text)


@pytest.mark.parametrize(
    "text",
    ["torch.os.system", "torch.hub.load", "torch.load", "torch.ops.load_library", "torch.ops.aten.from_file.default",
     "torch.ops.aten.from_file.out", "torch.ops.aten._print.default", "torch.ops.aten.save.default",
     "_operator.attrgetter", "_operator.methodcaller", "_operator.call", "os.system",
     "torch.ops.aten.__class__.mro", "torch.ops.aten.add.__class__", "torch.ops.aten.__dict__.update", "#x:y", "",
     "torch.ops.aten.add.Tensor.__call__", "torch.ops.aten.add.Tensor\n", "torch.ops.profiler.x.y", "math.__loader__",
     "torch.ops.higher_order.triton_kernel_wrapper_mutation", "torch.ops.aten.__init__.default", "builtins.eval"],
)  # fmt: skip
def test_operators_that_do_more_are_refused(text):
    with pytest.raises(ProgramRefused):
        check_operator(text)


def test_pickles_of_anything_but_tensors_are_refused():
    with zipfile.ZipFile(io.BytesIO(save_by_torch((torch.ones(2), {"a": nn.Parameter(torch.ones(1))}, [1, "x"])))) as z:
        check_pickle("x", z.read(next(n for n in z.namelist() if n.endswith("data.pkl"))))
    hostile = [pickle.dumps(Touch("x"), protocol=p) for p in range(6)]
    hostile += [pickle.dumps(nn.Linear, protocol=p) for p in range(6)]
    hostile += [
        b"",
        b"cos\nsystem\n(S'x'\ntR.",
        b"(S'x'\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\xff",
    ]
    hostile += [b"ctorch._utils\n_rebuild_tensor_v2\ncos\nsystem\n.", b"\x82\x01.", b"ctorch\nload\n."]
    for data in hostile:
        with pytest.raises(ProgramRefused):
            check_pickle("x", data)


@pytest.mark.parametrize("seed", range(30))
def test_damaged_programs_are_refused_in_one_line_or_read(seed, plain, tmp_path):
    rng, data = random.Random(seed), bytearray(plain.read_bytes())
    for _ in range(rng.choice((1, 3, 20))):
        data[rng.randrange(len(data))] = rng.randrange(256)
    (tmp_path / "d.pt2").write_bytes(bytes(data[: rng.choice((len(data), rng.randrange(len(data))))]))
    refused = None
    try:
        copy_cleanly(tmp_path / "d.pt2", tmp_path / "clean.pt2")
    except ProgramRefused as error:
        refused = error
    assert refused is None or len(str(refused).splitlines()) == 1


def test_an_entry_that_lies_before_its_file_is_a_damaged_program(plain, tmp_path):
    """The directory says so; the system refuses a reader that goes there."""
    data = bytearray(plain.read_bytes())
    at = data.rindex(b"PK\x01\x02")
    data[at + 42 : at + 46] = b"\xff\xff\xff\x7f"
    (tmp_path / "d.pt2").write_bytes(data)
    with pytest.raises(ProgramRefused):
        copy_cleanly(tmp_path / "d.pt2", tmp_path / "clean.pt2")
