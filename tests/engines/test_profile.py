"""The profile as a person gets it: seeds, real engines, and runners that misbehave."""

import json

import numpy as np
import pytest

from needed_engines import each_engine
from samebits import profile
from samebits.engines.runner import Identity
from samebits.errors import ArgumentError, EngineCrashed, SamebitsError
from samebits.findings import finding_from_json, json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.profile.profile_schema import Profile
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

pytestmark = pytest.mark.usefixtures("warm_workers")

ROW = "conv1d x=1x1x8 w=1x1x5 bias dtype=float32"
LAYER = "conv2d x=1x16x12x12 w=32x16x3x3 padding=1 bias"
KEYS = {
    "schema", "problem", "engine", "recipe", "family", "replay", "orders", "calls", "time_s", "accumulator", "operands",
    "fma", "subnormals", "invariant_to", "special_values", "evidence",
}  # fmt: skip


class Misbehaving:
    """Computes in order, and spoils what `spoil` makes of call number, problem and result."""

    def __init__(self, spoil):
        self.text, self.spoil, self.calls = "misbehaving", spoil, 0

    def identify(self):
        return Identity(self.text, self.text, "0", "CPU")

    def run(self, problem, operands):
        self.calls += 1
        return self.spoil(self.calls, emulate(problem, parse_recipe("direct"), operands))

    def close(self):
        return


def crash_at_the_third(calls, result):
    if calls == 3:
        raise EngineCrashed("its process was ended by SIGSEGV")
    return result


def fall_over(calls, result):
    raise ZeroDivisionError("a runner's own bug")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (crash_at_the_third, "SIGSEGV"),
        (lambda calls, result: result[:, :1], "shape"),
        (lambda calls, result: result.astype(np.float64), "dtype"),
        (fall_over, "ZeroDivisionError"),
    ],
)
def test_a_runner_that_fails_leaves_a_profile_that_says_why(spoil, says):
    found = profile(Misbehaving(spoil), LAYER)
    assert found.failure is not None
    assert says in found.failure
    assert found.recipe is None
    assert found.accumulator is None
    json.loads(json_from_finding(found))


def test_a_runner_that_returns_nan_everywhere_gets_no_recipe_that_fits():
    found = profile(Misbehaving(lambda calls, result: np.full_like(result, np.nan)), LAYER)
    assert (found.recipe, found.replay) == (None, None)
    assert found.accumulator is None
    assert found.fma is None


def test_a_runner_that_never_repeats_itself_is_called_so():
    random = np.random.default_rng(0)
    noise = Misbehaving(
        lambda calls, result: result * (1 + random.integers(-4, 5, result.shape) * 2.0**-22).astype(np.float32)
    )
    found = profile(noise, LAYER)
    assert found.invariant_to.repeat is False
    # Of five runs no two have the same noise in 4608 outputs.
    assert found.distinct_results == 5
    assert found.replay is not None
    assert found.replay.matched < 1.0


def test_a_slow_runner_is_asked_no_longer_than_allowed():
    import time

    def wait(calls, result):
        time.sleep(0.05)
        return result

    slow = Misbehaving(wait)
    started = time.perf_counter()
    found = profile(slow, "conv2d x=1x64x6x6 w=2x64x3x3", most_time_s=1.0)
    assert time.perf_counter() - started < 30
    assert found.failure is None
    # Calls of 0.05 s each: the twentieth ends after the second that was allowed.
    assert found.calls <= 20
    assert any("stopped after 1 s" in e.says for e in found.evidence)


def test_the_document_has_every_fixed_key_and_reads_back():
    found = profile("emulate:direct product=rounded order=k/4|pairs:k", ROW)
    document = json.loads(json_from_finding(found))
    assert set(document) >= KEYS
    assert document["schema"] == "samebits.profile/1"
    assert set(document["invariant_to"]) >= {"batch_size", "batch_position", "length", "layout", "threads", "repeat"}
    assert finding_from_json(json_from_finding(found), Profile) == found


def test_seed_2_an_accumulator_of_float16_is_told_from_one_of_float32():
    half = "conv2d x=1x32x8x8 w=16x32x3x3 dtype=float16"
    narrow = profile("emulate:direct acc=float16", half)
    assert narrow.accumulator == "float16"
    assert narrow.special_values["overflow"] == "infinite"
    wide = profile("emulate:direct acc=float32", half)
    assert wide.accumulator == "float32"
    assert wide.special_values["overflow"] == "the running sum has a wider range"


@pytest.mark.parametrize(
    "engine", each_engine(["torch", "onnxruntime", "tensorflow", "jax", "openvino:INFERENCE_PRECISION_HINT=f32"])
)
def test_real_engines_are_replayed_whole(engine):
    found = profile(engine, LAYER)
    assert found.failure is None
    assert found.replay is not None
    assert found.replay.matched == 1.0
    assert found.accumulator == "float32"
    assert found.invariant_to.repeat


@pytest.mark.needs("openvino")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_openvino_computes_by_default_is_replayed_whole(dtype):
    """In bfloat16 where the processor multiplies it: operands, bias and result. float64 becomes it by another rule."""
    found = profile("openvino", f"conv2d x=1x32x14x14 w=32x32x3x3 padding=1 bias dtype={dtype}")
    assert found.replay.is_whole
    assert (found.operands["x"] == "bfloat16") == ("via=bfloat16" in found.recipe)


@pytest.mark.needs("torch")
def test_a_case_is_replayed_too():
    problem = parse_problem_text(LAYER)
    found = profile("torch", Case(problem, make_normal(problem, 9), {}))
    assert found.replay_case is not None
    assert found.replay_case.matched == 1.0


def test_summing_left_to_right_and_in_lanes_are_seen_in_the_bits_of_a_channel_permutation():
    found = profile("emulate:direct acc=float64", LAYER)
    assert found.invariant_to.length is True
    assert found.invariant_to.batch_position is True


@pytest.mark.parametrize("engine", [17, None])
def test_what_is_no_engine_is_refused(engine):
    with pytest.raises(ArgumentError):
        profile(engine, ROW)


@pytest.mark.parametrize("text", ["emulate:sideways", "nowhere", "emulate:direct order=c//2"])
def test_a_bad_engine_text_is_refused(text):
    with pytest.raises(SamebitsError):
        profile(text, ROW)
