"""Settings tried on engines whose every setting is known: what is found, what is claimed, and that nothing is where
nothing helps. The engines are emulators behind the names and settings of real ones.
"""

import numpy as np
import pytest

import samebits
from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import Emulator
from samebits.engines.runner import Identity
from samebits.errors import EngineCrashed, EngineMissingError
from samebits.findings.engine_settings import SETTINGS
from samebits.judging.fixes import problem_trials, setting_changes, trials
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

CONVOLUTION = "conv1d x=2x6x12 w=5x6x3"
PRODUCT = "linear x=4x33 w=5x33"
NARROW, OTHER = "direct x=bfloat16 w=bfloat16", "direct order=pairs:k"


def values_of(text):
    """Settings and variables of an engine's text, by key."""
    runner = parse_runner_text(text)
    return {**runner.settings, **{f"env.{k}": v for k, v in runner.environment.items()}}


class Pretended:
    """An engine of which `choose` says, from its settings, by which recipe it computes."""

    def __init__(self, text, recipe, settings=None):
        self.text, self.recipe, self.settings = text, recipe, settings or {}

    def identify(self):
        return Identity(self.text, self.text.partition(":")[0], "1", "CPU", self.settings)

    def run(self, problem, operands):
        if self.recipe is None:
            raise EngineCrashed("the end")
        return Emulator(parse_recipe(self.recipe)).run(problem, operands)

    def close(self):
        pass


@pytest.fixture
def pretend(monkeypatch):
    """Makes `compare` and the search open pretended engines: a function of a text returns a recipe."""
    opened = []

    def install(choose, settings=None):
        def open_runner(text, time_limit_s=300.0):
            opened.append(text)
            return Pretended(text, choose(text), settings)

        monkeypatch.setattr(problem_trials, "open_runner", open_runner)
        monkeypatch.setattr("samebits.engines.registry.runners.open_runner", open_runner)
        return opened

    return install


def fix(problem, texts):
    found = samebits.compare(problem, texts, attributes=False, fix=True)
    return found, [f for f in found.fixes if f.engine != "any"]


def other_value(row):
    """A value that is not the row's, for settings whose default the row is."""
    declared = ENGINES[row.engine].load_class().settings[row.key]
    return next(v for v in declared.choices if v != row.value)


def is_default(row):
    declared = ENGINES[row.engine].load_class().settings.get(row.key)
    return declared is not None and declared.default == row.value


def by_row(deviating, row):
    def choose(text):
        if parse_runner_text(text).name != row.engine or text.endswith("#"):
            return "direct"
        given = values_of(text)
        return "direct" if given.get(row.key, row.value if is_default(row) else None) == row.value else deviating

    return choose


@pytest.mark.slow
@pytest.mark.parametrize("deviating", [NARROW, OTHER])
@pytest.mark.parametrize(
    "row",
    [row for row in SETTINGS if row.takes not in ("networks", "attention")],
    ids=lambda row: f"{row.engine}:{row.change}",
)
def test_the_one_setting_that_helps_is_found_whichever_it_is(row, deviating, pretend):
    pretend(by_row(deviating, row))
    on = [] if "cpu" in row.devices else [f"device={row.devices[0]}"]
    given = [*on, *([f"{row.key}={other_value(row)}"] if is_default(row) else [])]
    start = ":".join([row.engine, *([",".join(given)] if given else [])])
    control = "numpy" if row.engine == "jax" else "jax"
    found, fixes = fix(PRODUCT if row.takes == "products" else CONVOLUTION, [start, control])
    assert found.verdict in ("rounding", "downgrade", "undecided")
    (one,) = fixes
    assert (one.engine, one.verified, one.same_bits, one.changes) == (row.engine, True, True, 1)
    assert one.verdict_after == "identical"
    assert values_of(one.text).get(row.key, row.value) == row.value
    assert one.setting in (f"{row.key}={row.value}", f"without {row.key}")
    assert one.time_before_s > 0
    assert one.time_after_s > 0


@pytest.mark.parametrize("deviating", [NARROW, OTHER])
@pytest.mark.parametrize("problem", [CONVOLUTION, PRODUCT, "conv1d x=2x6x12 w=5x6x3 padding=same_upper"])
def test_nothing_is_claimed_where_nothing_helps(problem, deviating, pretend):
    pretend(lambda text: deviating if text.startswith("torch") else "direct")
    found, fixes = fix(problem, ["torch", "jax"])
    assert fixes == []
    assert any("no setting tried makes the sides agree" in e.says for e in found.evidence)
    (code,) = found.fixes
    assert code.setting == f"samebits.{problem.split()[0]} in place of every side"


def test_the_setting_that_puts_a_lone_side_right_is_found(pretend):
    row = next(row for row in SETTINGS if row.engine == "torch" and row.change == "mkldnn=off")
    pretend(by_row(NARROW, row))
    found, (one,) = fix(CONVOLUTION, ["torch"])
    assert found.verdict not in ("identical", "rounding")
    assert (one.text, one.verified, one.same_bits) == ("torch:mkldnn=off", True, False)
    _, none = fix(CONVOLUTION, ["jax"])
    assert none == []


def test_one_side_that_a_setting_puts_right_is_named_where_another_stays_wrong(pretend):
    row = next(row for row in SETTINGS if row.engine == "torch" and row.change == "mkldnn=off")
    alone = by_row(NARROW, row)
    pretend(lambda text: NARROW if text.startswith("openvino") else alone(text))
    found, fixes = fix(CONVOLUTION, ["torch", "openvino", "jax"])
    assert fixes == []
    assert "torch:mkldnn=off is right, and no setting tried makes openvino right" in [e.says for e in found.evidence]


@pytest.mark.parametrize(
    "problem",
    [
        "linear.grad_weight x=9x8 w=5x8",
        "conv1d x=2x6x12 w=5x6x3 then=relu",
        "conv1d x=2x6x12 w=5x6x3 padding=1:0",
        "conv1d x=2x6x12 w=5x6x3 stride=2 padding=same_upper",
        "conv1d x=2x6x12 w=5x6x4 padding=same_lower",
    ],
)
def test_what_functions_named_as_torchs_cannot_express_is_not_sent_to_them(problem, pretend):
    pretend(lambda text: OTHER if text.startswith("torch") else "direct")
    found, _ = fix(problem, ["torch", "jax"])
    assert found.fixes[-1].setting == "samebits.compute_truth(problem, operands) in place of every side"


def test_where_the_bits_agree_already_nothing_is_tried(pretend):
    opened = pretend(lambda text: "direct")
    found, fixes = fix(CONVOLUTION, ["torch", "jax"])
    assert (found.fixes, fixes) == ([], [])
    assert opened == ["torch", "jax"]
    assert "nothing to fix" in found.evidence[-1].says


def test_one_side_alone_has_nobody_to_agree_with(pretend):
    pretend(lambda text: None if text == "jax" else "direct")
    found, fixes = fix(CONVOLUTION, ["torch", "jax"])
    assert (found.fixes, fixes) == ([], [])
    assert "one result alone has none to agree with" in found.evidence[-1].says


def test_two_sides_that_lose_precision_alike_do_not_agree(pretend):
    pretend(lambda text: NARROW if "f32" not in text else "direct")
    found, fixes = fix(CONVOLUTION, ["openvino", "torch"])
    # torch has no such setting here: there is nothing that ends both.
    assert all(not f.same_bits or f.verdict_after != "identical" for f in fixes)
    assert found.fixes[-1].engine == "any"


def test_rounding_is_offered_where_the_bits_cannot_be_the_same(pretend):
    recipes = {"openvino": NARROW, "openvino:INFERENCE_PRECISION_HINT=f32": OTHER}
    pretend(lambda text: recipes.get(text, NARROW if text.startswith("openvino") else "direct"))
    _, fixes = fix(CONVOLUTION, ["openvino", "jax"])
    (one,) = fixes
    assert (one.text, one.same_bits, one.verdict_after) == ("openvino:INFERENCE_PRECISION_HINT=f32", False, "rounding")


@pytest.mark.slow
@pytest.mark.parametrize("attributes", [True, False])
def test_a_smaller_loss_that_the_bound_does_not_show_is_no_agreement(attributes, pretend):
    """2048 products: operands in bfloat16 are beyond the bound, in TF32 within it; both lose what float32 has."""
    recipes = {"torch": "direct x=bfloat16 w=bfloat16", "torch:mkldnn=off": "direct x=tf32 w=tf32"}
    pretend(lambda text: recipes.get(text, recipes["torch"] if text.startswith("torch") else "direct"))
    found = samebits.compare("linear x=4x2048 w=5x2048", ["torch", "jax"], attributes=attributes, fix=True)
    assert found.sides[0].verdict == ("downgrade" if attributes else "undecided")
    assert [f.engine for f in found.fixes] == ["any"]


def test_one_change_on_each_side_is_found_where_one_alone_does_not_do(pretend):
    recipes = {"torch:threads=1": "direct order=halves:k", "onnxruntime:threads=1": "direct order=halves:k"}
    pretend(lambda text: recipes.get(text, OTHER if text.startswith("torch") else "direct"))
    _, fixes = fix(CONVOLUTION, ["torch", "onnxruntime"])
    (one,) = fixes
    assert (one.text, one.together_with) == ("torch:threads=1", ["onnxruntime:threads=1"])
    assert (one.changes, one.same_bits, one.verdict_after) == (2, True, "identical")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_of_two_fixes_as_small_the_first_in_the_table_is_found_on_any_data(seed, pretend):
    """Both sides can be made to add by halves and by splits; the names of bits are other ones for every seed."""
    both = {"mkldnn=off": "direct order=halves:k", "layout=channels_last": "direct order=splits:k",
            "conv1d_as=conv2d": "direct order=splits:k", "optimization=basic": "direct order=halves:k"}  # fmt: skip
    pretend(lambda t: both.get(t.partition(":")[2], OTHER if t.startswith("torch") else "direct"))
    found = samebits.compare(CONVOLUTION, ["torch", "onnxruntime"], attributes=False, fix=True, seed=seed)
    one = found.fixes[0]
    assert (one.text, one.together_with) == ("torch:mkldnn=off", ["onnxruntime:optimization=basic"])


def test_two_settings_of_one_side_are_found_where_each_alone_only_changes_the_bits(pretend):
    def choose(text):
        given = values_of(text)
        if not text.startswith("torch"):
            return "direct"
        single, off = given.get("threads") == "1", given.get("mkldnn") == "off"
        return (
            "direct"
            if single and off
            else "direct order=halves:k"
            if single
            else "direct order=splits:k"
            if off
            else OTHER
        )

    pretend(choose)
    _, fixes = fix(CONVOLUTION, ["torch", "jax"])
    (one,) = fixes
    assert values_of(one.text) == {"threads": "1", "mkldnn": "off"}
    assert one.changes == 2


def test_a_setting_that_helps_only_once_is_not_called_verified(pretend):
    seen = []

    def choose(text):
        if not text.startswith("torch"):
            return "direct"
        seen.append(text)
        return "direct" if text == "torch:mkldnn=off" and seen.count(text) == 1 else OTHER

    pretend(choose)
    _, fixes = fix(CONVOLUTION, ["torch", "jax"])
    assert fixes == []


@pytest.mark.parametrize("once", ["compared", "tried"])
def test_a_side_left_as_it_is_must_give_its_bits_again_too(once, pretend):
    """jax adds now one way, now another, and torch:mkldnn=off meets one of them: nothing is the same every time."""
    runs = {"compared": [OTHER, "direct"], "tried": ["direct", "direct"]}[once]
    seen = []

    def choose(text):
        if text.startswith("torch"):
            return "direct" if text == "torch:mkldnn=off" else "direct order=halves:k"
        if text != "jax":
            return "direct order=splits:k"
        seen.append(text)
        return [*runs, OTHER][min(len(seen), 3) - 1]

    pretend(choose)
    _, fixes = fix(CONVOLUTION, ["torch", "jax"])
    assert not any(f.same_bits for f in fixes)


def test_a_runner_that_is_open_is_closed_where_the_next_cannot_be_opened():
    closed = []

    def open_run(text):
        if text == "jax":
            raise EngineMissingError("jax is not installed")
        return (lambda: None), lambda: closed.append(text)

    assert trials.time_in_turns(open_run, ("torch", "jax")) is None
    assert closed == ["torch"]


def test_settings_at_which_the_engine_crashes_are_passed_over(pretend):
    def choose(text):
        if not text.startswith("torch"):
            return "direct"
        return {"torch": OTHER, "torch:threads=1": "direct"}.get(text)

    pretend(choose)
    _, fixes = fix(CONVOLUTION, ["torch", "jax"])
    assert [f.text for f in fixes] == ["torch:threads=1"]


def test_what_an_engine_reports_as_effective_is_not_tried(pretend):
    opened = pretend(lambda text: OTHER if text.startswith("torch") else "direct", {"mkldnn": "off"})
    fix(CONVOLUTION, ["torch", "jax"])
    assert "torch:mkldnn=off" not in opened
    assert "torch:threads=1" in opened


def test_a_recorded_result_is_what_an_engine_is_made_to_give(pretend):
    pretend(lambda text: "direct" if "mkldnn=off" in text else OTHER)
    problem = parse_problem_text(CONVOLUTION)
    operands = make_normal(problem, 3)
    recorded = Emulator(parse_recipe("direct")).run(problem, operands)
    _, fixes = fix(Case(problem, operands, {"a": recorded}), ["torch"])
    (one,) = fixes
    assert (one.text, one.same_bits, one.verdict_after) == ("torch:mkldnn=off", True, "identical")


def test_a_recorded_result_that_is_wrong_cannot_be_agreed_with(pretend):
    pretend(lambda text: "direct")
    problem = parse_problem_text(CONVOLUTION)
    operands = make_normal(problem, 3)
    wrong = compute_truth(problem, operands).values + np.float32(1)
    found, fixes = fix(Case(problem, operands, {"a": wrong}), ["torch"])
    assert found.verdict == "wrong"
    assert fixes == []


def test_rows_for_the_cause_come_first():
    problem = parse_problem_text(CONVOLUTION)
    changes = setting_changes.list_changes("torch:threads=2", problem, "subnormals", {})
    assert changes[0].says == "without threads"
    assert changes[1].says == "flush_denormal=on"
    assert {c.key for c in changes if c.key.endswith("_memory")} == set()
    products = setting_changes.list_changes("torch:w_memory=strided", parse_problem_text(PRODUCT), None, {})
    assert "w_memory=contiguous" in {c.says for c in products}


def test_rows_about_networks_are_for_networks_alone():
    def list_keys(problem):
        return [change.key for change in setting_changes.list_changes("onnxruntime", problem, "int8-saturation", {})]

    assert list_keys(None)[0] == "x64quantprecision"
    for text in (PRODUCT, CONVOLUTION):
        assert "x64quantprecision" not in list_keys(parse_problem_text(text))


def test_nothing_of_the_truth_or_an_emulator_can_be_set():
    problem = parse_problem_text(CONVOLUTION)
    assert setting_changes.list_changes("truth", problem, None, {}) == []
    assert setting_changes.list_changes("emulate:direct", problem, None, {}) == []


def test_the_table_names_settings_that_exist_and_says_where_they_are_described():
    for row in SETTINGS:
        parse_runner_text(f"{row.engine}:{row.change}")
        assert all((row.why, row.also, row.source, row.causes)), row
        assert row.takes in ("all", "convolutions", "products", "attention", "networks")
        assert row.devices
        assert set(row.devices) <= {"cpu", "cuda"}
    assert len({(row.engine, row.change) for row in SETTINGS}) == len(SETTINGS)
