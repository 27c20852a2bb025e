"""What every command prints, at three widths, faults among it; kept in __snapshots__ and looked at when it changes.

Findings are made by plain NumPy runners and emulators, so that they are the same on every machine.
"""

import io
import re
from collections import Counter

import msgspec
import numpy as np
import pytest
from rich.console import Console

import samebits
from injected_runners import CrashingRunner, InjectedRunner
from samebits.display.page_layout import Page, Remark
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.compare.comparison_report import show_comparison
from samebits.questions.doctor.inventory_report import show_inventory
from samebits.questions.doctor.inventory_schema import EngineState, Inventory, Variable
from samebits.questions.explain.explanation_report import show_explanation
from samebits.questions.profile.profile_report import show_profile
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

LAYER = "conv2d x=2x8x10x12 w=16x8x3x3 padding=1"
WIDTHS = (60, 80, 160)
UNBROKEN = r"samebits (compare|profile|reduce)|\w\.\w|[\u2500-\u257f]|pip install"
LONG_RECIPE = "direct x=bfloat16 w=bfloat16 product=rounded order=pairs:c/4|kh,kw,c flush=operands,results"


def shift_columns(problem, result):
    return np.ascontiguousarray(np.roll(result, 1, axis=-1))


def make_case(*recipes, text=LAYER, names=("cpu", "gpu"), change=None):
    problem = parse_problem_text(text)
    operands = make_normal(problem, 5)
    results = {n: emulate(problem, parse_recipe(r), operands) for n, r in zip(names, recipes, strict=False)}
    if change:
        results[names[-1]] = change(problem, results[names[-1]])
    return Case(problem, operands, results)


def compare_rounding():
    return samebits.compare(
        "conv1d x=1x4x9 w=2x4x3", ["emulate:direct", "emulate:direct order=pairs:k product=rounded", "truth"]
    )


def compare_wrong():
    return samebits.compare(LAYER, [InjectedRunner("faulty", shift_columns), InjectedRunner("fault-free")], calls=3)


def compare_downgrade():
    return samebits.compare(LAYER, ["emulate:direct order=c,kh,kw", f"emulate:{LONG_RECIPE}"])


def compare_crash():
    return samebits.compare(LAYER, [CrashingRunner(), "truth"])


def compare_recorded():
    return samebits.compare(make_case("direct", "direct", change=lambda p, y: y * np.float32(1.001)))


def compare_same_bits():
    return samebits.compare(LAYER, ["emulate:direct order=c,kh,kw", "emulate:direct order=k"])


def explain_bits():
    return samebits.explain(make_case("direct order=kh,kw,c", "direct x=bfloat16 w=bfloat16 order=kh,kw,c"))


def explain_inferred():
    return samebits.explain(make_case("direct order=k/37|k", "direct x=tf32 w=tf32 order=k/37|k"))


def explain_fault():
    moved = emulate_other("conv2d x=2x8x10x12 w=16x8x3x3 padding=2:0x2:0")
    return samebits.explain(make_case("direct", "direct", change=lambda p, y: moved))


def emulate_other(text):
    problem = parse_problem_text(text)
    return emulate(problem, parse_recipe("direct order=k/37|k"), make_normal(problem, 5))


def explain_undecided():
    noise = np.random.default_rng(3).standard_normal
    return samebits.explain(
        make_case("direct", "direct", change=lambda p, y: y + (1e-4 * noise(y.shape)).astype(np.float32))
    )


def explain_log():
    return samebits.explain("examples/xla_mismatch.log")


def profile_one_order():
    return profile("emulate:direct acc=float16 order=c/4|kh,kw,c", "conv2d x=1x16x8x8 w=16x16x3x3 dtype=float16")


def profile_map():
    return profile("emulate:direct order=c,kw;kw|c where=ow(0*8,1*4)", "conv1d x=1x8x14 w=16x8x3")


def profile(engine, problem):
    """With fixed times: they are the only thing that differs from run to run."""
    found = samebits.profile(engine, problem)
    return msgspec.structs.replace(found, time_s=0.25, order_time_s=0.0625)


def list_inventory():
    variables = [Variable("OPENBLAS_NUM_THREADS", "2", "environment", "threads of the matrix product")]
    engines = [
        EngineState("onnxruntime", "1.31.1", "pip install onnxruntime", ["threads=all cores", "optimization=all"], []),
        EngineState("torch", None, "pip install torch", ["mkldnn=on", "threads=all cores", "layout=contiguous"], []),
    ]
    return Inventory(
        samebits_version="0.1.0", python="3.11.7", platform="Linux", processor="a processor", features=["avx2", "fma"],
        cores=2, memory_gib=24.0, packages={"numpy": "2.3.0", "numba": "0.61.0"}, engines=engines, variables=variables,
    )  # fmt: skip


MADE = {
    "compare": (show_comparison, [compare_rounding, compare_wrong, compare_downgrade, compare_crash, compare_recorded,
                                  compare_same_bits]),
    "explain": (show_explanation, [explain_bits, explain_inferred, explain_fault, explain_undecided, explain_log]),
    "profile": (show_profile, [profile_one_order, profile_map]),
    "doctor": (show_inventory, [list_inventory]),
}  # fmt: skip
REPORTS = [(show, make) for show, makers in MADE.values() for make in makers]


@pytest.fixture(scope="module")
def findings():
    """Each finding is made once for all widths."""
    return {}


def render(show, found, width, verbose=True):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    show(found, console, **({} if show is show_inventory else {"verbose": verbose}))
    return console.file.getvalue()


def get(findings, make):
    if make not in findings:
        findings[make] = make()
    return findings[make]


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("show", "make"), REPORTS, ids=lambda v: v.__name__)
def test_what_is_printed_is_what_was_looked_at(findings, snapshot, show, make, width):
    assert render(show, get(findings, make), width) == snapshot


@pytest.mark.parametrize(("show", "make"), REPORTS, ids=lambda v: v.__name__)
def test_what_fits_a_screen_is_what_was_looked_at(findings, snapshot, show, make):
    if show is show_inventory:
        pytest.skip("doctor lists everything")
    shown = render(show, get(findings, make), 96, verbose=False)
    assert shown == snapshot
    assert len(shown.splitlines()) <= 24
    # Whatever is left out is named.
    whole = render(show, get(findings, make), 96)
    assert ("  more " in shown) == (shown != whole)


@pytest.mark.parametrize(("show", "make"), REPORTS, ids=lambda v: v.__name__)
def test_lines_end_in_no_blanks_and_nothing_is_said_twice(findings, show, make):
    shown = render(show, get(findings, make), 100)
    lines = shown.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    sentences = Counter(line.strip() for line in lines if len(line.strip()) > 50 and " is " in line)
    assert [s for s, count in sentences.items() if count > 1] == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("show", "make"), REPORTS, ids=lambda v: v.__name__)
def test_recipes_and_commands_stand_in_one_line_each(findings, show, make, width):
    found = get(findings, make)
    lines = render(show, found, width).splitlines()
    recipes = {getattr(found, "recipe", None), *(side.recipe for side in getattr(found, "sides", []))} - {None}
    for recipe in recipes:
        assert any(recipe in line for line in lines), recipe
    commands = [line for line in lines if "samebits compare" in line]
    assert all(line.count('"') % 2 == 0 for line in commands)


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_of_prose_is_wider_than_the_terminal(findings, width):
    for show, make in REPORTS:
        found = get(findings, make)
        sides = getattr(found, "sides", [])
        verbatim = [getattr(found, "recipe", "") or "", *(s.recipe for s in sides if s.recipe)]
        verbatim += [s.name.partition(":")[2] for s in sides]
        for line in render(show, found, width).splitlines():
            whole = any(v and v in line for v in verbatim) or re.search(
                r"samebits (compare|profile|reduce)|\w\.\w|[\u2500-\u257f]", line
            )
            assert len(line) <= width or whole or "pip install" in line, line


@pytest.mark.parametrize("width", WIDTHS)
def test_every_side_and_its_verdict_are_shown(findings, width):
    for show, make in REPORTS:
        found = get(findings, make)
        lines = render(show, found, width).splitlines()
        for side in getattr(found, "sides", []):
            verdict = side.failure.kind if side.failure else side.verdict
            name = re.escape(side.name.partition(":")[0])
            assert any(re.match(rf"  {name}.* {verdict}\b", line) for line in lines), (make.__name__, side.name)


def test_colours_are_for_terminals_only(findings):
    found = get(findings, compare_wrong)
    assert "\x1b[" not in render(show_comparison, found, 100)
    console = Console(file=io.StringIO(), width=100, highlight=False, force_terminal=True, color_system="standard")
    show_comparison(found, console)
    assert "\x1b[1;31m" in console.file.getvalue()


def test_a_page_of_which_nothing_must_be_shown_says_what_it_lacks():
    console = Console(file=io.StringIO(), width=80, highlight=False)
    page = Page()
    page.add([Remark(f"label {i}", "x", rank=1) for i in range(40)])
    page.add([Remark("", "y") for _ in range(30)], rank=2)
    page.print_to(console, verbose=False)
    assert "label 39, further parts: with --verbose" in " ".join(console.file.getvalue().split())
