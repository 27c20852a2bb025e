"""Choices: the fastest that keeps the contract; candidates are plain NumPy, and as fast as they are told to be."""

import ctypes
import itertools
import time

import numpy as np
import pytest

import samebits
from samebits.engines.runner import Identity
from samebits.errors import ArgumentError, LockError, RunnerTextError, SamebitsError
from samebits.findings import finding_from_json, json_from_finding
from samebits.machine import count_cores
from samebits.numbers.ulps import digest_bits
from samebits.problems import parse_problem_text
from samebits.questions.pick.engine_variants import list_candidates
from samebits.questions.pick.finals import list_finalists, order_by_time
from samebits.questions.pick.pick_schema import Lock, Pick

# Left out of `make quick`.
pytestmark = pytest.mark.slow

PROBLEM = "conv2d x=2x16x9x9 w=8x16x3x3 padding=1 dtype=float32"
HALF = "conv2d x=2x16x9x9 w=8x16x3x3 padding=1 dtype=float16"


def products_of(problem, operands):
    """N x C_out x positions x K, in float32."""
    padded = np.pad(operands["x"].astype(np.float32), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    n, _, h, w = windows.shape[:4]
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, 1, h * w, -1)
    return rows * operands["w"].astype(np.float32).reshape(1, problem.w[0], 1, -1)


class Candidate:
    """A convolution in plain NumPy that takes as long as it is told."""

    def __init__(self, text, seconds=0.0):
        self.text, self.seconds, self.runs = text, seconds, 0

    def identify(self):
        return Identity(self.text, "plain NumPy", "1.0", "CPU")

    def add(self, products):
        return products.sum(axis=-1, dtype=np.float32)

    def run(self, problem, operands):
        self.runs += 1
        time.sleep(self.seconds)
        return self.add(products_of(problem, operands)).reshape(problem.out_shape).astype(problem.out)

    def close(self):
        raise AssertionError("whoever opened a runner closes it")


class Reversed(Candidate):
    def add(self, products):
        return products[..., ::-1].sum(axis=-1, dtype=np.float32)


class LosesATap(Candidate):
    def add(self, products):
        return products[..., 1:].sum(axis=-1, dtype=np.float32)


class HalfSums(Candidate):
    """Every partial sum is stored in float16."""

    def add(self, products):
        total = np.zeros(products.shape[:-1], np.float16)
        for k in range(products.shape[-1]):
            total = (total.astype(np.float64) + products[..., k]).astype(np.float16)
        return total.astype(np.float32)


class AnyOrder(Candidate):
    """As with atomic additions: another order in every run."""

    turns = itertools.count()

    def add(self, products):
        order = np.random.default_rng(next(self.turns)).permutation(products.shape[-1])
        return np.add.accumulate(products[..., order], axis=-1)[..., -1]


class SplitsSmallBatches(Candidate):
    """Keeps all cores busy with one item by cutting its sums in two."""

    def add(self, products):
        if products.shape[0] > 1:
            return super().add(products)
        half = products.shape[-1] // 3
        return super().add(products[..., :half]) + super().add(products[..., half:])


def reason(found, text):
    (rejection,) = [r for r in found.choices[0].rejected if r.engine == text]
    return rejection


def test_the_fastest_is_picked_and_the_others_are_listed_with_their_times():
    found = samebits.pick(PROBLEM, [Candidate("slow", 0.006), Reversed("fast", 0.001), Candidate("slower", 0.03)])
    (choice,) = found.choices
    assert choice.engine == "fast"
    assert 0.001 <= choice.time_s < choice.slower[0].time_s
    assert [timed.engine for timed in choice.slower] == ["slow", "slower"]
    assert not choice.rejected
    assert choice.replay is None or choice.replay.is_whole
    assert finding_from_json(json_from_finding(found), Pick) == found


@pytest.mark.parametrize("problem", [PROBLEM, HALF])
@pytest.mark.parametrize(
    ("made", "cause", "says"),
    [
        (LosesATap, None, "exact integers differ"),
        (HalfSums, "low-precision-accumulator", "float16"),
        (AnyOrder, "nondeterminism", "different results"),
    ],
)
def test_the_fastest_is_not_picked_where_it_breaks_the_contract_and_the_reason_is_named(problem, made, cause, says):
    found = samebits.pick(problem, [made("broken"), Candidate("sound", 0.005)])
    assert found.choices[0].engine == "sound"
    rejection = reason(found, "broken")
    assert says in rejection.why
    if cause is not None:
        assert rejection.cause == cause


def test_without_any_sound_candidate_none_is_picked():
    found = samebits.pick(PROBLEM, [LosesATap("one"), HalfSums("other")])
    assert found.choices[0].engine is None
    assert found.choices[0].time_s is None
    assert len(found.choices[0].rejected) == 2
    assert found.summary.startswith("No candidate")


def test_changing_bits_are_taken_where_they_are_allowed():
    found = samebits.pick(PROBLEM, [AnyOrder("any"), Candidate("sound", 0.01)], deterministic=False)
    assert found.choices[0].engine == "any"


def test_bits_that_depend_on_the_batch_are_taken_unless_it_is_asked_for():
    candidates = [SplitsSmallBatches("splits"), Candidate("sound", 0.005)]
    assert samebits.pick(PROBLEM, candidates).choices[0].engine == "splits"
    found = samebits.pick(PROBLEM, candidates, batch_invariant=True)
    assert found.choices[0].engine == "sound"
    assert "batch" in reason(found, "splits").why


def test_no_number_from_the_truth_is_what_only_correct_rounding_keeps():
    found = samebits.pick(PROBLEM, [Candidate("float32"), "truth"], max_ulp=0)
    assert found.choices[0].engine == "truth"
    assert "0 asked for" in reason(found, "float32").why


def test_lost_precision_is_taken_where_it_is_allowed_and_another_function_is_not():
    found = samebits.pick(HALF, [HalfSums("half"), LosesATap("broken"), Candidate("sound", 0.02)], within="any")
    assert found.choices[0].engine == "half"
    assert [r.engine for r in found.choices[0].rejected] == ["broken"]


@pytest.mark.needs("onnxruntime")
def test_memory_is_limited_where_it_is_seen():
    text = "conv2d x=1x16x64x64 w=16x16x3x3 padding=1 dtype=float32"
    found = samebits.pick(text, ["onnxruntime:threads=1"], workspace=2**30)
    assert found.choices[0].engine == "onnxruntime:threads=1"
    # The result alone takes 256 KiB.
    assert 2**18 <= found.choices[0].peak_bytes < 2**30
    found = samebits.pick(text, ["onnxruntime:threads=1", Candidate("unseen")], workspace=1000)
    assert found.choices[0].engine is None
    assert "memory grew by" in reason(found, "onnxruntime:threads=1").why
    assert "cannot be seen" in reason(found, "unseen").why


@pytest.mark.needs("onnxruntime")
def test_a_convolution_and_a_product_are_picked_among_real_engines():
    for text in (PROBLEM, "linear x=8x64 w=32x64 bias dtype=float32"):
        (choice,) = samebits.pick(text, ["onnxruntime", "emulate:direct"]).choices
        assert choice.engine.startswith("onnxruntime:")
        assert f"threads={count_cores()}" in choice.engine or "threads=1" in choice.engine
        assert [timed.engine for timed in choice.slower][-1] == "emulate:direct"
        assert choice.replay.is_whole
        assert choice.recipe


def test_a_model_is_picked_for_product_by_product(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, rng = onnx.helper, np.random.default_rng(0)
    weights = {"w": (4, 3, 3, 3), "v": (4, 4, 1, 1), "m": (4, 5)}
    tensors = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["c"], name="second"),
        helper.make_node("Conv", ["c", "v"], ["d"], name="third"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"]),
        helper.make_node("Flatten", ["e"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="last"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "net", [value("x", 1, ["batch", 3, 8, 8])], [value("y", 1, ["batch", 5])], tensors)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    found = samebits.pick(path, ["emulate:direct", "truth"], lock=tmp_path / "samebits.lock", gradients=True)
    used = {choice.problem: choice.used_by for choice in found.choices}
    # Sizes left open are 1, as they are where a network is compared.
    assert used["conv2d x=1x3x8x8 w=4x3x3x3 padding=1 dtype=float32"] == ["first"]
    assert used["conv2d x=1x4x8x8 w=4x4x1x1 dtype=float32"] == ["second", "third"]
    assert used["matmul x=1x4 w=4x5 dtype=float32"] == ["last"]
    assert used["conv2d.grad_weight x=1x4x8x8 w=4x4x1x1 dtype=float32"] == ["second", "third"]
    assert len(found.choices) == 9
    assert all(choice.engine for choice in found.choices)
    again = samebits.pick(path, ["emulate:direct", "truth"], lock=tmp_path / "samebits.lock", gradients=True)
    assert [c.picked_by for c in again.choices] == ["lock"] * 9
    assert [c.engine for c in again.choices] == [c.engine for c in found.choices]


class Doubling(Candidate):
    """Leaves its input changed."""

    def run(self, problem, operands):
        result = super().run(problem, operands)
        writable = np.frombuffer(operands["x"].data, operands["x"].dtype)
        ctypes.memmove(writable.ctypes.data, (operands["x"] * 2).tobytes(), writable.nbytes)
        return result


def test_who_changes_its_operands_is_judged_by_what_it_computes():
    found = samebits.pick(PROBLEM, [Doubling("doubles")])
    assert found.choices[0].engine == "doubles"


class ChangesLater(Candidate):
    """Right for as long as anybody looks closely, then another order, or another number."""

    def __init__(self, text, after, broken):
        super().__init__(text)
        self.after, self.broken = after, broken

    def add(self, products):
        if self.runs <= self.after:
            return super().add(products)
        return products.sum(axis=-1, dtype=np.float32) * 0 + 7 if self.broken else products[..., ::-1].sum(axis=-1)


@pytest.mark.parametrize("after", [40, 100])
@pytest.mark.parametrize("broken", [True, False])
def test_who_changes_after_a_while_is_not_picked(after, broken):
    found = samebits.pick(PROBLEM, [ChangesLater("turns", after, broken), Candidate("sound", 0.003)])
    assert found.choices[0].engine == "sound"
    assert reason(found, "turns").cause == "nondeterminism"
    # Where bits may change, another function may not be computed.
    found = samebits.pick(PROBLEM, [ChangesLater("turns", after, True)], deterministic=False)
    assert found.choices[0].engine is None


class FailsLater(Candidate):
    """Computes as often as it is first looked at, then no more."""

    def run(self, problem, operands):
        if self.runs > 45:
            raise ValueError("no more today")
        return super().run(problem, operands)


def test_who_fails_while_it_is_timed_is_left_out_with_its_own_words():
    found = samebits.pick(PROBLEM, [FailsLater("tires"), Candidate("sound", 0.002)])
    assert found.choices[0].engine == "sound"
    assert "no more today" in reason(found, "tires").why


def test_a_runner_may_call_itself_as_an_engine_does_and_two_may_not_have_one_text():
    class Named(Candidate):
        def identify(self):
            return Identity(self.text, "numpy", "1.0", "CPU")

    assert samebits.pick(PROBLEM, [Named("mine")]).choices[0].engine == "mine"
    with pytest.raises(ArgumentError, match="same text"):
        samebits.pick(PROBLEM, [Candidate("one"), Reversed("one")])


# Lock files.


@pytest.fixture
def lock(tmp_path):
    return tmp_path / "samebits.lock"


def test_a_lock_makes_the_same_choice_ten_times_without_a_run(lock):
    fast, slow = Reversed("one", 0.001), Candidate("other", 0.005)
    assert samebits.pick(PROBLEM, [slow, fast], lock=lock).choices[0].engine == "one"
    fast.seconds, slow.seconds = 0.02, 0.0
    fast.runs = slow.runs = 0
    for _ in range(10):
        (choice,) = samebits.pick(PROBLEM, [slow, fast], lock=lock).choices
        assert (choice.engine, choice.picked_by) == ("one", "lock")
    assert (fast.runs, slow.runs) == (0, 0)
    assert samebits.pick(PROBLEM, [slow, fast], lock=lock, again=True).choices[0].engine == "other"


def test_another_contract_or_other_candidates_are_picked_anew(lock):
    splits, sound = SplitsSmallBatches("splits"), Candidate("sound", 0.005)
    assert samebits.pick(PROBLEM, [splits, sound], lock=lock).choices[0].engine == "splits"
    found = samebits.pick(PROBLEM, [splits, sound], lock=lock, batch_invariant=True)
    assert (found.choices[0].engine, found.choices[0].picked_by) == ("sound", "timing")
    other = samebits.pick(PROBLEM, [Reversed("third")], lock=lock, batch_invariant=True)
    assert (other.choices[0].engine, other.choices[0].picked_by) == ("third", "timing")


def test_a_locked_text_of_an_engine_that_is_named_alone_is_asked_for(lock):
    """Made where there are other cores, its number of threads is none that would be tried here."""
    samebits.pick(PROBLEM, ["truth"], lock=lock)
    edit(lock, engine=('"engine": "truth"', '"engine": "numpy:threads=77"'))
    with pytest.raises(LockError, match="numpy:threads=77"):
        samebits.pick(PROBLEM, ["numpy"], lock=lock)
    assert samebits.pick(PROBLEM, ["truth"], lock=lock).choices[0].picked_by == "timing"


def edit(lock, **changes):
    """The lock as it would be had it been made elsewhere."""
    text = lock.read_text()
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    lock.write_text(text)


def test_a_lock_from_elsewhere_is_taken_if_it_gives_the_same_bits_here(lock):
    candidate = Candidate("one")
    first = samebits.pick(PROBLEM, [candidate], lock=lock).choices[0]
    edit(lock, version=('"version": "1.0"', '"version": "0.9"'))
    candidate.runs = 0
    (choice,) = samebits.pick(PROBLEM, [candidate], lock=lock).choices
    assert (choice.engine, choice.picked_by, choice.time_s) == ("one", "checked lock", first.time_s)
    assert [place.version for place in choice.places] == ["0.9", "1.0"]
    # Once on exact integers, once on random operands.
    assert candidate.runs == 2
    assert samebits.pick(PROBLEM, [candidate], lock=lock).choices[0].picked_by == "lock"
    assert candidate.runs == 2


def test_a_lock_from_elsewhere_is_refused_if_its_bits_are_others_here(lock):
    samebits.pick(PROBLEM, [Candidate("one")], lock=lock)
    edit(lock, version=('"version": "1.0"', '"version": "0.9"'))
    before = lock.read_text()
    with pytest.raises(
        LockError, match=r"one gives other bits here \(1\.0 on .*\) than where the lock was made \(0\.9"
    ):
        samebits.pick(PROBLEM, [Reversed("one")], lock=lock)
    assert lock.read_text() == before
    assert samebits.pick(PROBLEM, [Reversed("one")], lock=lock, again=True).choices[0].picked_by == "timing"


def test_a_locked_engine_that_is_not_here_is_named(lock):
    samebits.pick(PROBLEM, ["truth"], lock=lock)
    edit(lock, engine=('"engine": "truth"', '"engine": "nowhere:threads=2"'))
    with pytest.raises(LockError, match="unknown engine 'nowhere'"):
        samebits.pick(PROBLEM, lock=lock)


def test_the_bits_in_a_lock_are_those_of_the_choice(lock):
    samebits.pick(PROBLEM, [Candidate("one")], lock=lock)
    (kept,) = finding_from_json(lock.read_text(), Lock).choices
    from samebits.problems.operands import make_exact, make_normal

    problem = parse_problem_text(PROBLEM)
    for digest, operands in zip(kept.choice.digests, (make_exact(problem, 0), make_normal(problem, 0)), strict=True):
        assert digest == digest_bits(Candidate("one").run(problem, operands))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "samebits.pick/1"}', "\x00\xff", "null", "[" * 100_000])
def test_what_is_no_lock_is_refused_and_stays(lock, text):
    lock.write_text(text, encoding="latin-1")
    with pytest.raises(LockError, match="no lock file of samebits"):
        samebits.pick(PROBLEM, ["truth"], lock=lock)
    assert lock.read_text(encoding="latin-1") == text


def test_folders_and_missing_folders_are_named(tmp_path):
    for path in (tmp_path, tmp_path / "missing" / "samebits.lock"):
        with pytest.raises(LockError) as raised:
            samebits.pick(PROBLEM, ["truth"], lock=path)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        {"within": "reach"}, {"max_ulp": -1}, {"max_ulp": float("nan")}, {"workspace": -1}, {"workspace": 1.5},
    ],
)  # fmt: skip
def test_contracts_that_mean_nothing_are_refused(options):
    with pytest.raises(ArgumentError):
        samebits.pick(PROBLEM, ["truth"], **options)


def test_subjects_and_candidates_that_mean_nothing_are_refused():
    for odd in ([], [3], 3, None, {}):
        with pytest.raises(ArgumentError, match="pick needs a problem"):
            samebits.pick(odd, ["truth"])
    with pytest.raises(SamebitsError):
        samebits.pick("conv2d of something", ["truth"])
    with pytest.raises(RunnerTextError):
        samebits.pick(PROBLEM, ["torhc"])


# Which candidates there are, and who is the fastest.


def test_an_engine_by_name_stands_for_its_variants_and_another_text_for_itself():
    problem = parse_problem_text(PROBLEM)
    found = list_candidates(problem, ["torch:threads=3", "torch", "torch:threads=3"])
    assert found[0] == "torch:threads=3"
    assert found[1] == f"torch:threads={count_cores()}"
    assert len(found) == len(set(found)) == 9
    assert all("threads=" in text for text in found)
    assert {"torch:mkldnn=off,layout=channels_last,threads=1"} <= set(found)
    # Layouts and operators are tried only where they mean something.
    product = list_candidates(parse_problem_text("linear x=8x64 w=32x64 dtype=float32"), ["torch"])
    assert not any("layout" in text for text in product)
    assert any("linear_as" in text for text in product)
    assert list_candidates(problem, ["truth", "emulate:direct"]) == ["truth", "emulate:direct"]


def test_ties_are_broken_by_the_sequence_and_the_rest_by_time():
    assert order_by_time({"a": 1.5, "b": 1.01, "c": 1.0, "d": 1.1}) == ["b", "c", "d", "a"]
    assert order_by_time({}) == []
    assert list_finalists({"a": 9.0, "b": 1.2, "c": 1.0}) == ["b", "c"]
    assert len(list_finalists({str(i): 1 + i / 1000 for i in range(50)})) == 6
