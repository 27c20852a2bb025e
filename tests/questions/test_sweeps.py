"""Sweeps compared with brute force, against the truth, which nothing changes, and against injected boundaries."""

import itertools
import json
import sys
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import samebits
from needed_engines import each_engine
from samebits.cli import main
from samebits.engines.registry.runners import Emulator, open_runner
from samebits.engines.runner import Identity
from samebits.errors import (
    ArgumentError,
    EngineCrashed,
    EngineMissingError,
    EngineUnsupported,
    ProblemShapeError,
    SamebitsError,
)
from samebits.findings import json_from_finding
from samebits.problems import parse_problem_text
from samebits.questions.report.any_finding import read_finding
from samebits.questions.report.rendering import render_markdown
from samebits.questions.sweep import sweeping
from samebits.questions.sweep.sweep_text import parse_sweep
from samebits.questions.sweep.sweeping import list_cells, sweep
from samebits.sums.recipes import parse_recipe

pytestmark = pytest.mark.usefixtures("warm_workers")

ROOT = Path(__file__).parent.parent.parent


def read_values(text, engine="truth"):
    return {r.name: list(r.values) for r in parse_sweep(text, engine).ranges}


@pytest.mark.parametrize(
    ("text", "engine", "values"),
    [
        ("linear x={1..4}x8 w=3x8", "truth", {"rows": [1, 2, 3, 4]}),
        ("linear x=2x{1..7:3}x8 w=3x8", "truth", {"rows": [1, 4, 7]}),
        ("linear x={1,2}x5x8 w={3,4}x8", "truth", {"batch0": [1, 2], "columns": [3, 4]}),
        ("matmul x={2,4}x3x8 w=2x8x{1..3}", "truth", {"batch0": [2, 4], "columns": [1, 2, 3]}),
        ("linear x=2x{k:4..8:4} w=3x{k}", "truth", {"k": [4, 8]}),
        ("conv1d x={1,8}x4x{7..9} w={2,3}x4x3", "truth", {"n": [1, 8], "w": [7, 8, 9], "c_out": [2, 3]}),
        ("conv2d x=1x{c:4,8}x{5,6}x7 w=2x{c}x3x3", "truth", {"c": [4, 8], "h": [5, 6]}),
        ("conv3d x=1x1x{5,6}x5x{7,8} w=2x1x3x3x3", "truth", {"d": [5, 6], "w": [7, 8]}),
        ("linear x=2x8 w=3x8", "torch:threads={1,2},mkldnn={on,off}", {"threads": [1, 2], "mkldnn": ["on", "off"]}),
        ("linear x=2x8 w=3x8", "torch:docker={a:12,b/c:13}", {"docker": ["a:12", "b/c:13"]}),
    ],
)
def test_ranges_are_read(text, engine, values):
    assert read_values(text, engine) == values


@pytest.mark.parametrize(
    "text",
    [
        "linear x={4..1}x8 w=3x8", "linear x={}x8 w=3x8", "linear x={1..4x8 w=3x8", "linear x={a,b}x8 w=3x8",
        "linear x={1,1}x8 w=3x8", "linear x={1..9:0}x8 w=3x8", "linear x={1..99999999}x8 w=3x8", "linear x={k}x8 w=3x8",
        "linear x={1..300}x8 w={1..300}x8", "conv1d x=1x1x9 w=1x1x3 stride={1,2}", "linear x={-1..3}x8 w=3x8", "{1..3}",
        "linear x={1.5}x8 w=3x8", "linear x={{1..2}}x8 w=3x8", "",
    ],
)  # fmt: skip
def test_what_is_no_range_is_refused_in_one_line(text, capsys):
    assert main(["sweep", text, "--on", "truth"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len([line for line in said if not line.startswith("samebits: ") or "..." not in line]) == 1
    assert "Traceback" not in "".join(said)


# The truth does not change: whatever is called shared has the same exact value at every size.
UNCHANGED = [
    "linear x={1..5}x19 w=7x19 bias", "linear x={1..3}x{1,4}x9 w={2,5}x9", "linear x=3x{k:5..9} w=4x{k}",
    "matmul x=3x{1..4}x9 w=3x9x{2,6}", "matmul x={1..4}x9 w=9",
    "conv1d x={1..3}x2x{7..12} w={3,5}x2x5 bias", "conv1d x=1x2x{9..15} w=3x2x3 stride=2 padding=2",
    "conv1d x=1x{c:2..5}x9 w=3x{c}x3", "conv2d x=1x3x{6..9}x{6,11} w=4x3x3x2 padding=1:0x1:1 dilation=2x1",
    "conv2d x=2x6x{7,8}x8 w=9x2x3x3 groups=3 then=clip(0,1)", "conv2d x={1,4}x6x{5..8}x5 w=6x1x3x3 groups=6",
    "conv3d x=1x2x{4..6}x5x{5,7} w=2x2x3x3x3", "conv_transpose1d x=1x2x{5..8} w=2x3x4 stride=3 padding=1",
    "conv_transpose2d x={1..3}x2x{4..6}x5 w=2x3x3x3 stride=2x1 output_padding=1x0",
    "conv1d x=1x2x{7..10} w=3x2x3 padding=same_upper", "conv1d x=1x2x12 w=3x2x{3..6}",
    "linear x={1..6}x33 w=4x33 dtype=bfloat16", "conv1d x=1x8x{20..24} w=4x8x5 dtype=float16",
]  # fmt: skip


@pytest.mark.parametrize("text", UNCHANGED)
def test_the_truth_is_the_same_at_every_point(text):
    found = sweep(text, ["truth"], recipes=False)
    assert found.outputs > 0
    assert (found.invariant, len(found.classes), found.uneven, found.failures) == (True, 1, [], [])


@pytest.mark.parametrize(
    "text",
    [
        "conv1d x=1x2x{3..8} w=3x2x5 padding=1", "conv1d.grad_weight x={1,2}x2x8 w=3x2x5",
        "conv2d x=1x2x{8,10}x8 w=3x2x3x3 stride=3 padding=same_upper", "conv2d x=2x6x8x8 w={6,12}x2x3x3 groups=3",
        "conv_transpose1d x=1x{c:4,8}x5 w={c}x3x4 groups=2",
    ],
)  # fmt: skip
def test_points_that_share_no_output_are_refused(text):
    with pytest.raises(ProblemShapeError):
        sweep(text, ["truth"], recipes=False)


def run_by_hand(runner, text, name, values):
    """Row 0's bits at each size, three times, from arrays made here: no code of the sweep's."""
    keys = [b""] * len(values)
    for seed in range(3):
        rng = np.random.default_rng(seed + 12)
        largest = parse_problem_text(text.replace(name, str(max(values))))
        x = rng.standard_normal(largest.x).astype(np.float32)
        x[:] = x[:1] if largest.product else x
        w = rng.standard_normal(largest.w).astype(np.float32)
        for i, value in enumerate(values):
            problem = parse_problem_text(text.replace(name, str(value)))
            result = runner.run(problem, {"x": np.ascontiguousarray(x[tuple(map(slice, problem.x))]), "w": w})
            kept = result[:1] if problem.product else result[..., : min(values) - problem.w[-1] + 1]
            keys[i] += kept.tobytes()
    return [i for i in range(1, len(keys)) if keys[i] != keys[i - 1]]


def list_boundaries(found):
    """Places in the only axis where the class changes."""
    values = found.axes[0].values
    number = {v: n for n, c in enumerate(found.classes) for a, b in c.sizes for v in values if a <= v <= b}
    return [i for i in range(1, len(values)) if number[values[i]] != number[values[i - 1]]]


BRUTE = [
    ("linear x=Rx512 w=96x512", "R", range(1, 41)), ("linear x=Rx100 w=300x100", "R", range(1, 25)),
    ("matmul x=Rx320 w=320x40", "R", range(1, 33)), ("conv1d x=1x16xR w=24x16x5", "R", range(8, 40)),
    ("linear x=Rx48 w=17x48", "R", range(2, 66, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "values"), BRUTE)
@pytest.mark.parametrize("engine", each_engine(["torch", "numpy", "onnxruntime", "jax"]))
def test_boundaries_are_those_of_brute_force(engine, text, name, values):
    if engine == "numpy" and text.startswith("conv"):
        pytest.skip("numpy has no convolutions")
    listed = "{" + ",".join(map(str, values)) + "}"
    found = sweep(text.replace(name, listed), [engine], recipes=False)
    with open_runner(engine) as runner:
        expected = run_by_hand(runner, text, name, list(values))
    assert list_boundaries(found) == expected
    assert found.repeats


class SizedRunner:
    """Another order of addition at some sizes, as `choose` says of a problem."""

    text = "sized"

    def __init__(self, choose):
        self.choose = choose
        self.calls = 0

    def identify(self):
        return Identity(self.text, self.text, "1", "CPU")

    def run(self, problem, operands):
        self.calls += 1
        recipe = self.choose(problem)
        if isinstance(recipe, Exception):
            raise recipe
        return Emulator(parse_recipe(recipe), recipe).run(problem, operands)

    def close(self):
        pass


ORDERS = ("direct order=k", "direct order=k/16|k", "direct order=pairs:k")


@pytest.mark.parametrize(
    ("choose", "sizes"),
    [
        (lambda rows: ORDERS[0] if rows < 5 else ORDERS[1], [[[1, 4]], [[5, 40]]]),
        (
            lambda rows: ORDERS[rows % 4 == 3],
            [[[1, 2], *([i, min(i + 2, 40)] for i in range(4, 41, 4))], [[i, i] for i in range(3, 40, 4)]],
        ),
        (lambda rows: ORDERS[0 if rows == 1 else 1 if rows < 17 else 2], [[[1, 1]], [[2, 16]], [[17, 40]]]),
        (lambda rows: ORDERS[rows == 23], [[[1, 22], [24, 40]], [[23, 23]]]),
        (lambda rows: ORDERS[2], [[[1, 40]]]),
    ],
)  # fmt: skip
def test_injected_boundaries_are_found_and_none_besides(choose, sizes, monkeypatch):
    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(lambda problem: choose(problem.x[0])))
    found = sweep("linear x={1..40}x96 w=64x96", ["sized"], recipes=False)
    assert [c.sizes for c in found.classes] == sizes
    assert found.invariant == (len(sizes) == 1)
    assert [c.points for c in found.classes] == [sum(b - a + 1 for a, b in c.sizes) for c in found.classes]


def test_few_outputs_are_asked_twice(monkeypatch):
    """One output agrees by chance now and then: another order is seen with other operands."""
    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(lambda p: ORDERS[p.x[0] > 6]))
    for k in (80, 96, 112, 128):
        found = sweep(f"linear x={{1..9}}x{k} w=4x{k}", ["sized"], recipes=False)
        assert [c.sizes for c in found.classes] == [[[1, 6]], [[7, 9]]]


def open_some(steady):
    """Engines whose bits depend on the rows, some texts apart; those that samebits knows and that are not here."""

    def open_one(text, **_):
        if text.partition(":")[0] not in ("torch", "numpy"):
            raise EngineMissingError("not here")
        return SizedRunner(lambda problem: ORDERS[0 if text in steady or problem.x[0] < 3 else 1])

    return open_one


@pytest.mark.parametrize(
    ("steady", "fixes"),
    [
        (["torch:mkldnn=off", "numpy"], ["torch:mkldnn=off", "numpy"]),
        (["torch:mkldnn=off"], ["torch:mkldnn=off"]),
        (["numpy"], ["numpy"]),
        ([], []),
    ],
)
def test_what_gives_the_same_bits_everywhere_is_tried_and_said(steady, fixes, monkeypatch, capsys):
    monkeypatch.setattr(sweeping, "open_runner", open_some(steady))
    found = sweep("linear x={1..5}x96 w=64x96", ["torch"], recipes=False, fix=True)
    assert [f.engine for f in found.fixes] == fixes
    assert found.tried > 1
    tried = next(e.says for e in found.evidence if "tried on these points" in e.says)
    assert tried.endswith("none gives the same bits at all points") == (not fixes)
    main(["sweep", "linear x={1..5}x96 w=64x96", "--on", "torch", "--no-recipes", "--fix"])
    printed = capsys.readouterr().out
    assert all(f'--on "{text}"' in printed for text in fixes)


@pytest.mark.parametrize("subject", [["catalog"], ["net.onnx", "--size", "batch={1..2}"]])
def test_fixes_are_of_one_problem(subject, capsys):
    assert main(["sweep", *subject, "--on", "numpy", "--fix"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_nothing_is_tried_where_bits_stay_or_nobody_asked(monkeypatch):
    opened = []

    def open_one(text, **_):
        opened.append(text)
        return open_some(["torch"] if len(opened) == 1 else [])(text)

    monkeypatch.setattr(sweeping, "open_runner", open_one)
    assert sweep("linear x={1..5}x96 w=64x96", ["torch"], recipes=False, fix=True).invariant
    assert sweep("linear x={1..5}x96 w=64x96", ["torch"], recipes=False).tried is None
    assert set(opened) == {"torch"}


@pytest.mark.parametrize(
    ("choose", "says"),
    [
        (lambda rows: rows > 2, "pad to at least 3"),
        (lambda rows: rows == 5, "pad every call to 5 rows"),
        (lambda rows: rows % 2, "pad every call to 5 rows"),
        (lambda rows: 0, None),
    ],
)
def test_what_to_pad_a_batch_to(choose, says, monkeypatch):
    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(lambda p: ORDERS[choose(p.x[0])]))
    found = sweep("linear x={1..5}x96 w=64x96", ["sized"], recipes=False)
    advice = [e.says for e in found.evidence if e.kind == "setting"]
    assert (says in advice[0]) if says else not advice


def test_a_grid_is_put_into_cells(monkeypatch):
    def choose(problem):
        return ORDERS[1] if problem.x[0] >= 3 and problem.w[0] >= 24 else ORDERS[0]

    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(choose))
    found = sweep("linear x={1..6}x64 w={16,24,32}x64", ["sized"], recipes=False)
    assert found.classes[0].cells == [
        {"rows": [1, 2], "columns": [16, 32]},
        {"rows": [3, 6], "columns": [16, 16]},
    ]
    assert found.classes[1].cells == [{"rows": [3, 6], "columns": [24, 32]}]
    assert [c.points for c in found.classes] == [10, 8]


def test_cells_hold_just_their_points():
    ranges = parse_sweep("linear x={1..5}x8 w={1..4}x8", "torch:threads={1,2}").ranges
    names = ("rows", "columns", "threads")
    points = itertools.product(range(1, 6), range(1, 5), (1, 2))
    every = [dict(zip(names, point, strict=True)) for point in points]
    rng = np.random.default_rng(3)
    for _ in range(50):
        chosen = [p for p in every if rng.random() < 0.5]
        held = [
            point
            for cell in list_cells(ranges, chosen)
            for point in every
            if all(cell[name][0] <= point[name] <= cell[name][-1] for name in cell)
        ]
        assert sorted(map(repr, held)) == sorted(map(repr, chosen))


def test_a_tail_that_is_computed_otherwise_is_seen_in_equal_rows(monkeypatch):
    class Tail(SizedRunner):
        def run(self, problem, operands):
            result = Emulator(parse_recipe(ORDERS[0]), "").run(problem, operands)
            last = problem.x[0] % 4
            if problem.x[0] > 4 and last:
                other = Emulator(parse_recipe(ORDERS[1]), "").run(problem, operands)
                result = np.concatenate([result[:-last], other[-last:]])
            return result

    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: Tail(None))
    found = sweep("linear x={1..12}x96 w=64x96", ["tail"], recipes=False)
    assert len(found.classes) == 1
    assert found.uneven == [{"rows": [5, 7]}, {"rows": [9, 11]}]
    assert found.invariant is False


def test_points_that_fail_are_named_and_the_others_go_on(monkeypatch):
    def choose(problem):
        return {7: EngineUnsupported("no sevens"), 9: EngineCrashed("gone")}.get(problem.x[0], ORDERS[0])

    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(choose))
    found = sweep("linear x={1..12}x96 w=64x96", ["fails"], recipes=False)
    assert [(f.at, f.failure.kind) for f in found.failures] == [({"rows": 7}, "unsupported"), ({"rows": 9}, "crash")]
    assert [c.sizes for c in found.classes] == [[[1, 6], [8, 8], [10, 12]]]
    assert found.invariant is False


def test_an_engine_that_never_answers_leaves_it_open(monkeypatch):
    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: SizedRunner(lambda _: EngineCrashed("gone")))
    found = sweep("linear x={1..3}x8 w=4x8", ["crash"])
    assert (found.invariant, found.classes, len(found.failures)) == (None, [], 3)


def test_other_bits_every_time_are_said(monkeypatch):
    class Random(SizedRunner):
        def run(self, problem, operands):
            return Emulator(parse_recipe(ORDERS[rng.integers(2)]), "").run(problem, operands)

    rng, runner = np.random.default_rng(4), Random(None)
    monkeypatch.setattr(sweeping, "open_runner", lambda *_, **__: runner)
    found = sweep("linear x={1..9}x96 w=64x96", ["random"], recipes=False)
    assert (found.repeats, found.invariant) == (False, False)
    assert "other bits when they are asked again" in found.summary


@pytest.mark.needs("numpy")
def test_recipes_of_classes_replay_on_the_sweeps_own_operands(tmp_path):
    found = sweep("linear x={1,4,64}x256 w=32x256", ["numpy", "emulate:direct order=k/32|k"])
    assert len(found.classes) >= 2
    assert all(c.recipe and c.replayed for c in found.classes)
    (only,) = found.more[0].classes
    assert (only.recipe, only.replayed) == ("direct product=fused acc=float32 order=k/32|k", True)
    document = json.loads(json_from_finding(found))
    jsonschema.validate(document, json.loads((ROOT / "docs/schemas/samebits.sweep-1.json").read_text()))
    page = render_markdown(read_finding(json_from_finding(found).encode()))
    assert found.classes[0].recipe in page


@pytest.mark.needs("torch")
def test_settings_are_swept_too():
    found = sweep("linear x={1,64}x64 w=32x64", ["torch:threads={1,2}"], recipes=False)
    assert [a.name for a in found.axes] == ["rows", "threads"]
    assert found.points == 4


@pytest.mark.needs("numpy")
@pytest.mark.parametrize("no_python", [False, True])
@pytest.mark.parametrize("broken_first", [False, True])
def test_versions_are_said_and_one_that_does_not_load_costs_its_points(broken_first, no_python, tmp_path):
    """The one Python says that its NumPy is another; the other ends as soon as an engine is loaded."""
    programs = []
    for name, does in (("other", "import numpy; numpy.__version__ = '1.2.3'"), ("broken", "import os; os._exit(3)")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "threadpoolctl.py").write_text(f"{does}\ndef threadpool_info(): return []\n")
        program = tmp_path / f"{name}-python"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/{name}:$PYTHONPATH exec {sys.executable} "$@"\n')
        program.chmod(0o755)
        programs.append(str(program))
    other, broken = programs
    if no_python:
        broken = "/no/such/python"
    pythons = [sys.executable, broken, other] if not broken_first else [broken, sys.executable, other]
    found = samebits.sweep("linear x={4}x8 w=3x8", [f"numpy:python={{{','.join(pythons)}}}"], recipes=False)
    assert found.version == f"{np.__version__}, 1.2.3"
    assert len(found.classes) == 1
    assert [failure.at["python"] for failure in found.failures] == [broken]


def test_the_command_and_its_status(capsys):
    assert main(["sweep", "linear x={1..9}x16 w=4x16", "--on", "emulate:direct", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["invariant"]) == ("samebits.sweep/1", True)
    assert document["classes"][0]["sizes"] == [[1, 9]]
    assert main(["sweep", "linear x=7x16 w=4x16", "--batch-invariant", "--on", "truth", "--no-recipes"]) == 0
    assert "linear x={1..7}x16" in capsys.readouterr().out
    assert main(["sweep", "linear x={1..9}x16 w=4x16", "--batch-invariant", "--on", "truth"]) == 2
    assert main(["sweep", "linear x={1..9}x16 w=4x16"]) == 2
    assert main(["sweep", "linear x=9x16 w=4x16", "--on", "truth"]) == 2


def test_in_python():
    assert samebits.sweep("conv1d x=1x2x{7..9} w=3x2x5", ["truth"]).invariant
    with pytest.raises(ArgumentError):
        samebits.sweep("conv1d x=1x2x{7..9} w=3x2x5", [])
    with pytest.raises(SamebitsError):
        samebits.sweep("conv1d x=1x2x{7..9} w=3x2x5", ["nobody"])


PACKETS = Path(__file__).parent.parent.parent / "examples" / "kernels.py"


def test_orders_that_seldom_give_other_bits_are_seen_all_the_same():
    # Five products have equal bits in both orders most of the time: three outputs are not enough to tell.
    found = sweep("conv1d x=1x1x{7..12} w=1x1x5 bias", f"{PACKETS}:packets")
    assert [one.sizes for one in found.classes] == [[[7, 7]], [[8, 12]]]
    assert [one.replayed for one in found.classes] == [True, True]
    assert [parse_recipe(one.recipe).product for one in found.classes] == ["rounded", "rounded"]
    assert any("86 sets of operands were compared, 258 outputs" in e.says for e in found.evidence)
    assert sweep("conv1d x=1x1x{8..12} w=1x1x5 bias", f"{PACKETS}:packets").invariant


def test_a_row_that_is_computed_of_another_shows_though_equal_rows_hide_it():
    """By construction: of three rows beyond blocks of four the last is that before it; the control computes all."""

    def mixing(problem, operands):
        x = operands["x"].copy()
        if len(x) % 4 == 3:
            x[-1] = x[-2]
        return np.stack([row @ operands["w"].T for row in x])

    def right(problem, operands):
        return np.stack([row @ operands["w"].T for row in operands["x"]])

    text = "linear x={1..12}x40 w=24x40"
    found = samebits.sweep(text, mixing)
    assert (len(found.classes), found.invariant) == (1, False)
    assert [cell["rows"] for cell in found.uneven] == [[3, 3], [7, 7], [11, 11]]
    assert "other items get other bits by where they stand in the batch" in found.summary
    control = samebits.sweep(text, [right])
    assert (control.invariant, control.uneven) == (True, [])


def test_what_comes_and_goes_is_no_boundary():
    """One call of many adds otherwise: whichever it is, and on whichever operands, it is not there again."""
    text = "linear x={1..12}x40 w=24x40"
    for at in (5, 17, 30, 50, 77, 101):
        calls = []

        def flaky(problem, operands, at=at, calls=calls):
            calls.append(1)
            x, w = operands["x"], operands["w"]
            turned = slice(None, None, -1 if len(calls) == at else 1)
            return np.stack([sum_in_order(row[turned] * w[:, turned]) for row in x])

        found = samebits.sweep(text, flaky)
        assert found.repeats is (len(found.classes) == 1)
        assert not any(e.kind == "setting" for e in found.evidence)


def sum_in_order(products):
    total = np.zeros(len(products), np.float32)
    for column in products.T:
        total = total + column
    return total
