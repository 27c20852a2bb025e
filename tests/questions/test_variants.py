"""Explain on results made by other means: plain NumPy, SciPy, NNPACK, with data as networks have them."""

import itertools

import numpy as np
import pytest

from plain_sums import bf16
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems.case_file import Case
from variant_making import EITHER, FAULT_FREE, NotHere
from variants import PROBLEMS, VARIANTS, make_variant

# Left out of `make quick`.
pytestmark = pytest.mark.slow

# No seed of `make variants`. Of two cases one may tell too little: clips that hide most of it, pictures all alike. The
# second is looked at where the first does: `make variants` looks at all of them.
SEED, CASES = 100, 2
AGREE = ("identical", "rounding")


def make(name):
    """The variant on the first problems where it leaves a trace, others first for each variant."""
    start = sum(map(ord, name)) % len(PROBLEMS)
    count = 0
    for text in itertools.chain(PROBLEMS[start:], PROBLEMS[:start]):
        try:
            yield make_variant(name, text, SEED + len(name))
        except NotHere:
            continue
        count += 1
        if count == CASES:
            return
    if not count:
        pytest.skip("left no trace anywhere, or needs what is not here")


@pytest.mark.parametrize("name", VARIANTS)
def test_what_was_done_is_found_and_nothing_false_is_proved(name):
    variant, right = VARIANTS[name], []
    for made in make(name):
        (side,) = explain_case(made.case).sides
        fits = side.verdict in variant.verdicts
        if variant.verdicts not in (FAULT_FREE, EITHER) or side.verdict not in AGREE:
            fits &= side.cause in variant.causes
        right.append(fits)
        # That every output is within its bound is true whatever was done.
        proved = side.certainty in ("bits", "bounds") and side.verdict != "rounding"
        assert side.verdict in variant.verdicts or not proved, side
        assert variant.verdicts != FAULT_FREE or fits, side
        if fits:
            break
    assert any(right)


SAYS = (
    # A bias rounded beside it comes closer by one output of four thousand.
    ("stored bfloat16", "linear x=64x256 w=64x256 bias", 71, "stores its result in bfloat16"),
    # Pictures are whole numbers, so that nothing is lost where they are stored in 8 bits.
    ("stored e8m13", "matmul x=96x384 w=384x48", 72, "stores its result in e8m13"),
    # Rectified channels have few values each.
    ("half of it stored float16", PROBLEMS[1], 57, "stores channels 16, 17, 18 and 10 more of its result in float16"),
    # 183 * 448 / 244 = 336 lies in the middle between two numbers of float8.
    ("x and w float8", PROBLEMS[0], 56, "multiplies x as stored in float8_e4m3fn with one scale, and w"),
    # Within the bound of 2,304 products.
    ("split-K 4 in float16, added in float32", PROBLEMS[9], 65, "adds 4 parts of its products in float32, stores each"),
    ("float16 per 32 products", PROBLEMS[9], 65, "keeps sums of 32 products in float16 and adds those in float32"),
    # The result's own roundings are half of all there is.
    ("float16 per 32 products", PROBLEMS[17], 73, "keeps sums of 32 products in float16 and adds those in float32"),
    # One transform of hundreds comes closer, in rows that have 72 weights each and hardly vary.
    ("rounded weights on record", PROBLEMS[5], 61, "multiplies w with more digits than on record"),
    # On the plain background the channels' sequence is not seen.
    ("input channels shuffled", PROBLEMS[1], 57, "multiplies other operands than those on record"),
    # Filters meet the channels of other groups, and clips hide some of what they give.
    ("filters shuffled", PROBLEMS[4], 60, "takes 23 of 24 filters in another sequence (filter 6 stands in place of 0"),
    ("filters shuffled", PROBLEMS[5], 61, "takes 32 of 32 filters in another sequence (filter 12 stands in place of 0"),
    # Sums that their bias cancels were stored with larger steps than the result's.
    ("bfloat16 sums, float32 bias", PROBLEMS[15], 78, "rounds x and w to bfloat16 before it multiplies, and stores"),
    # Rows that relu makes zero tell nothing; of few outputs that change all are given right.
    ("F(2,3) float16 inside", PROBLEMS[1], 64, "uses Winograd's F(2,3) with transformed data and weights in"),
    ("F(4,3) bfloat16 inside", PROBLEMS[4], 67, "uses Winograd's F(4,3) with transformed data and weights in bfloat16"),
)


@pytest.mark.parametrize(("name", "text", "seed", "says"), SAYS)
def test_nothing_else_is_said_where_chance_comes_closer(name, text, seed, says):
    (side,) = explain_case(make_variant(name, text, seed).case).sides
    assert side.says.startswith(says)
    assert side.verdict in VARIANTS[name].verdicts
    assert side.cause in VARIANTS[name].causes


def test_a_few_other_roundings_of_the_result_are_no_truncated_sums():
    """Of 6,272 outputs 29 are the other float16 number, which a transform in float32 does as well."""
    (side,) = explain_case(make_variant("F(6,3) float32", PROBLEMS[17], 80).case).sides
    assert (side.verdict, side.says) == ("rounding", None)


def test_a_rounded_bias_stands_in_the_recipe_that_replays():
    case = make_variant("bias bfloat16", PROBLEMS[15], 71).case
    x, w, bias = (case.operands[name] for name in ("x", "w", "bias"))
    # In an order that is the same on every processor, as those of matrix libraries are not.
    sums = np.cumsum(x[:, None] * w[None], axis=-1, dtype=np.float32)[..., -1]
    (side,) = explain_case(Case(case.problem, case.operands, {"a": (sums + bf16(bias)).astype(np.float32)})).sides
    assert (side.cause_certainty, side.says) == ("bits", "rounds the bias to bfloat16 before it is added")
    assert side.recipe.startswith("direct b=bfloat16 ")
    assert side.replay.matched == 1.0
