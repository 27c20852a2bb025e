"""Long sums of few outputs: arrangements written in plain NumPy are found in few calls, or asked out where unlikely."""

import numpy as np
import pytest

from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.probes.swapped_roles import SwappedSession, can_swap
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.runner import Identity
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.problems.terms import find_terms
from samebits.sums.emulators import emulate
from samebits.sums.truth import compute_truth

# Left out of `make quick`.
pytestmark = pytest.mark.slow


class Vectors:
    """Float32 products of vectors, added as `add` does along the last axis; rows above `odd` as `add_odd` does."""

    text = "vectors"

    def __init__(self, add, add_odd=None, odd=0):
        self.add, self.add_odd, self.odd = add, add_odd, odd

    def identify(self):
        return Identity(self.text, "vectors", "1", "CPU")

    def run(self, problem, operands):
        x, w = operands["x"], operands["w"]
        w = np.swapaxes(w, -1, -2) if problem.kind == "matmul" else w
        with np.errstate(all="ignore"):
            products = x[..., :, None, :] * w[..., None, :, :]
            result = self.add(products)
            if self.add_odd:
                result[self.odd :] = self.add_odd(products[self.odd :])
        return result

    def close(self):
        pass


class Halves(Vectors):
    """The same in float16, whose results count two thousand units at most."""

    def run(self, problem, operands):
        x, w = operands["x"], operands["w"]
        with np.errstate(all="ignore"):
            result = self.add(x[:, None, :] * w.T[None])
            if self.add_odd:
                result[:, self.odd :] = self.add_odd((x[:, None, :] * w.T[None])[:, self.odd :])
        return result


class ExactRunner:
    """Rounds every sum once."""

    text = "exact"

    def identify(self):
        return Identity("exact", "exact", "1", "CPU")

    def run(self, problem, operands):
        return compute_truth(problem, operands).values

    def close(self):
        pass


def in_order(p):
    return np.cumsum(p, axis=-1, dtype=np.float32)[..., -1]


def in_lanes(count, unrolled=1):
    """Lanes of a vector unit, each unrolled, then folded in halves; the tail one by one."""

    def add(p):
        step = count * unrolled
        main = p.shape[-1] // step * step
        lanes = np.cumsum(p[..., :main].reshape(*p.shape[:-1], -1, step), axis=-2, dtype=np.float32)[..., -1, :]
        while lanes.shape[-1] > 1:
            half = lanes.shape[-1] // 2
            lanes = lanes[..., :half] + lanes[..., half:]
        total = lanes[..., 0]
        for k in range(main, p.shape[-1]):
            total = total + p[..., k]
        return total

    return add


def in_blocks(size):
    """Blocks in order; of what is left of less than two, halves."""

    def add(p):
        total, start = None, 0
        while start < p.shape[-1]:
            left = p.shape[-1] - start
            width = size if left >= 2 * size or left <= size else -(-left // 2)
            part = in_order(p[..., start : start + width])
            total, start = part if total is None else total + part, start + width
        return total

    return add


def in_base_four(p):
    """Four by four, again and again, each time in order; a power of four terms."""
    while p.shape[-1] > 1:
        p = in_order(p.reshape(*p.shape[:-1], -1, 4))
    return p[..., 0]


def in_pairs_backwards(p):
    """As an instruction that multiplies pairs and adds the second product first."""
    return in_order(p.reshape(*p.shape[:-1], -1, 2)[..., ::-1].reshape(p.shape))


def after_a_start(p):
    """Four terms in order up to an aligned address, then eight lanes of which the first goes on with that sum."""
    start, rest = in_order(p[..., :4]), p[..., 4:]
    main = rest.shape[-1] // 8 * 8
    table = rest[..., :main].reshape(*p.shape[:-1], -1, 8).copy()
    lanes = [np.cumsum(table[..., i], axis=-1, dtype=np.float32)[..., -1] for i in range(8)]
    first = start
    for k in range(table.shape[-2]):
        first = first + table[..., k, 0]
    lanes[0] = first
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[i] + lanes[i + half] for i in range(half)]
    total = lanes[0]
    for k in range(main, rest.shape[-1]):
        total = total + rest[..., k]
    return total


def in_parts(count, size):
    """Parts of equal length, each in blocks of one size that start again in it, added up by its own thread."""

    def add(p):
        part = -(-p.shape[-1] // count)
        total = None
        for start in range(0, p.shape[-1], part):
            own = p[..., start : start + part]
            sums = [in_order(own[..., a : a + size]) for a in range(0, own.shape[-1], size)]
            whole = in_order(np.stack(sums, axis=-1))
            total = whole if total is None else total + whole
        return total

    return add


def in_parts_of_two_kinds(p):
    """Two parts that end where vectors of eight do, the second of which is cut into other blocks."""
    half = -(-p.shape[-1] // 16) * 8
    one, two = p[..., :half], p[..., half:]
    one = in_order(np.stack([in_order(one[..., a : a + 56]) for a in range(0, one.shape[-1], 56)], axis=-1))
    two = in_order(np.stack([in_order(two[..., a : a + 48]) for a in range(0, two.shape[-1], 48)], axis=-1))
    return one + two


def in_lanes_whose_first_goes_on(p):
    """Four lanes of an unrolled loop; the first takes what is left, then the others join it in order."""
    whole = p.shape[-1] // 4 * 4
    first = in_order(np.concatenate([p[..., :whole:4], p[..., whole:]], axis=-1))
    return first + in_order(p[..., 1:whole:4]) + in_order(p[..., 2:whole:4]) + in_order(p[..., 3:whole:4])


def in_shards(size, block, lanes=1):
    """Shards of so many terms, each in two halves that end with a vector of 16, in blocks; lanes in steps of eight."""

    def add_block(p):
        whole = p.shape[-1] // 8 * 8
        sums = [in_order(p[..., n:whole:lanes]) for n in range(lanes)] if whole else []
        total = sums[0] + sums[1] if lanes == 2 and whole else (sums or [None])[0]
        for k in range(whole, p.shape[-1]):
            total = p[..., k] if total is None else total + p[..., k]
        return total

    def add(p):
        total = None
        for start in range(0, p.shape[-1], size):
            shard = p[..., start : start + size]
            half = -(-shard.shape[-1] // 32) * 16
            whole = None
            for part in (shard[..., :half], shard[..., half:]):
                sums = [add_block(part[..., a : a + block]) for a in range(0, part.shape[-1], block)]
                own = in_order(np.stack(sums, axis=-1))
                whole = own if whole is None else whole + own
            total = whole if total is None else total + whole
        return total

    return add


ARRANGEMENTS = {
    "in order": (in_order, 4096),
    "8 lanes": (in_lanes(8), 4096),
    "4 lanes, 8 times unrolled": (in_lanes(4, 8), 4096),
    "16 lanes and a tail": (in_lanes(16), 1021),
    "blocks": (in_blocks(320), 4096),
    "blocks, the last two halved": (in_blocks(384), 2000),
    "base four": (in_base_four, 4096),
    "pairs backwards": (in_pairs_backwards, 2048),
    "a start, lanes, a tail": (after_a_start, 1023),
    "two threads in blocks of ten": (in_parts(2, 10), 3136),
    "six threads in blocks": (in_parts(6, 72), 2592),
    "two threads that cut differently": (in_parts_of_two_kinds, 1701),
    "four lanes, the first goes on": (in_lanes_whose_first_goes_on, 1022),
    "four lanes, nothing is left": (in_lanes_whose_first_goes_on, 2048),
    "shards in halves in blocks": (in_shards(2610, 320), 3778),
}


def assert_replayed(problem, runner, recipe):
    for seed in range(70, 90):
        operands = make_normal(problem, seed)
        replayed, result = emulate(problem, recipe, operands), runner.run(problem, operands)
        assert np.array_equal(replayed.view(np.uint32), result.view(np.uint32))


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_single_sum_of_thousands_of_terms_is_found_in_two_hundred_calls(name):
    add, length = ARRANGEMENTS[name]
    problem = parse_problem_text(f"matmul x=1x{length} w={length}x1")
    runner = Vectors(add)
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert session.calls <= 200
    assert_replayed(problem, runner, found.recipe)


def test_shards_of_more_terms_than_a_result_can_count_are_found():
    """As a batch is cut so that a part of it fits a cache, each part by two threads; odd rows in lanes."""
    problem = parse_problem_text("matmul x=3x7000 w=7000x24 dtype=float16")
    runner = Halves(in_halves(in_shards(5130, 320)), in_halves(in_shards(5130, 320, lanes=2)), odd=16)
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert session.calls <= 500
    for seed in range(70, 76):
        operands = make_normal(problem, seed)
        replayed, result = emulate(problem, found.recipe, operands), runner.run(problem, operands)
        assert np.array_equal(replayed.view(np.uint16), result.view(np.uint16))


def in_halves(add):
    """An arrangement written for float32 sums, with float16 ones in their place."""

    def run(p):
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "in_order", lambda q: np.cumsum(q, axis=-1, dtype=np.float16)[..., -1])
            return add(p)

    return run


def one_output_each(add):
    """A runner of convolutions with one position, whose products `add` takes with the kernel's axes."""

    class Runner(Vectors):
        def run(self, problem, operands):
            with np.errstate(all="ignore"):
                products = operands["x"][:, None] * operands["w"][None]
                return add(products).reshape(problem.out_shape)

    return Runner(add)


def channels_fastest_in_parts(p):
    """Products [..., c, kh, kw] with channels in the innermost loop, by two threads, in blocks of 40."""
    flat = np.moveaxis(p, 2, -1).reshape(*p.shape[:2], -1)
    return in_parts(2, 40)(flat)


def lanes_of_channels(p):
    """Products [..., c, kw] in blocks of twelve channels, four lanes of channels folded side by side, the rest last."""
    main = p.shape[2] // 4 * 4
    total = None
    for start in range(0, main, 12):
        own = p[:, :, start : min(start + 12, main)]
        a, b, c, d = (in_order(np.swapaxes(own[:, :, n::4], -1, -2).reshape(*p.shape[:2], -1)) for n in range(4))
        block = (a + b) + (c + d)
        total = block if total is None else total + block
    rest = np.swapaxes(p[:, :, main:], -1, -2).reshape(*p.shape[:2], -1)
    for k in range(rest.shape[-1]):
        total = total + rest[..., k]
    return total


@pytest.mark.parametrize(
    ("text", "add"),
    [
        ("conv2d x=1x5x9x12 w=3x5x9x12", channels_fastest_in_parts),
        ("conv1d x=1x53x10 w=2x53x10", lanes_of_channels),
    ],
)
def test_long_sums_over_several_axes_are_found_in_two_hundred_calls(text, add):
    problem = parse_problem_text(text)
    runner = one_output_each(add)
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert session.calls <= 200
    assert_replayed(problem, runner, found.recipe)


def test_an_unlikely_order_is_asked_out_when_no_guess_fits():
    """The terms in a random sequence: no likely order explains the answers, so every term is asked about."""
    shuffled = np.random.default_rng(3).permutation(300)
    problem = parse_problem_text("matmul x=1x300 w=300x2")
    runner = Vectors(lambda p: in_order(p[..., shuffled]))
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert not found.order.orders.guessed
    assert session.calls > 150
    assert_replayed(problem, runner, found.recipe)


def test_a_guess_that_replays_nothing_is_asked_again():
    """Two terms far from both ends change places: the pairs that are asked do not show it, random data do."""
    order = np.arange(1000)
    order[[400, 600]] = order[[600, 400]]
    problem = parse_problem_text("matmul x=1x1000 w=1000x1")
    runner = Vectors(lambda p: in_order(p[..., order]))
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert_replayed(problem, runner, found.recipe)


@pytest.mark.parametrize(
    "text",
    ["matmul x=64x512 w=512x1", "matmul x=3x40x512 w=3x512x2", "linear x=64x509 w=1x509", "matmul x=97x640 w=640x3"],
)
@pytest.mark.parametrize("add", [in_lanes(8), in_blocks(96), in_pairs_backwards], ids=["lanes", "blocks", "pairs"])
def test_questions_go_into_the_operand_that_has_more_rows(text, add):
    problem = parse_problem_text(text)
    if add is in_pairs_backwards and find_terms(problem).count % 2:
        pytest.skip("pairs of an odd number of terms")
    runner = Vectors(add)
    session = ProbeSession(runner, problem)
    orders = find_summation_orders(session)
    assert session.calls <= 60
    assert (orders.places == 0).all()
    assert_replayed(problem, runner, search_recipe(ProbeSession(runner, problem)).recipe)


def test_positions_that_add_otherwise_are_told_apart_when_they_carry_the_questions():
    problem = parse_problem_text("matmul x=70x384 w=384x1")
    runner = Vectors(in_lanes(8), in_order, odd=64)
    orders = find_summation_orders(ProbeSession(runner, problem))
    assert len(orders.trees) == 2
    assert (orders.places.reshape(-1)[:64] == orders.places.reshape(-1)[0]).all()
    assert (orders.places.reshape(-1)[64:] == orders.places.reshape(-1)[64]).all()
    assert_replayed(problem, runner, search_recipe(ProbeSession(runner, problem)).recipe)


@pytest.mark.parametrize(
    "text",
    [
        "matmul x=3x5x30 w=3x30x4",
        "linear.grad_weight x=30x5 w=4x5",
        "linear.grad_input x=5x30 w=4x30",
        "conv1d x=2x6x9 w=4x3x1 groups=2",
        "conv2d.grad_weight x=4x3x5x5 w=2x3x1x1",
    ],
)
def test_a_swapped_session_asks_the_same_sums(text):
    """Random operands of the swapped problem: every sum is the one that plain matrix products give."""
    problem = parse_problem_text(text)

    base = ProbeSession(ExactRunner(), problem)
    assert can_swap(base.terms)
    swapped = SwappedSession.swap(base)
    random = np.random.default_rng(1)
    shapes = swapped.problem.operand_shapes
    operands = {name: random.integers(-9, 10, shape).astype(np.float32) for name, shape in shapes.items()}
    groups, rows, columns = base.terms.groups, base.terms.positions, base.terms.rows
    answer = swapped.ask(operands).reshape(columns, groups, rows)
    x = operands["x"].reshape(columns, groups, -1)
    w = operands["w"].reshape(groups, rows, -1)
    assert np.array_equal(answer, np.einsum("cgk,grk->cgr", x, w))
    assert base.calls == 1


@pytest.mark.parametrize("text", ["conv1d x=1x3x9 w=2x3x3", "conv2d x=1x3x5x5 w=2x3x1x1 padding=1"])
def test_sources_that_several_positions_read_cannot_carry_questions(text):
    assert not can_swap(find_terms(parse_problem_text(text)))
