"""Every number that can change a verdict or a cause, other than exact data, derived bounds and bits: one documented table.

`make thresholds` halves and doubles each of them and counts whose verdict or cause changes; docs/thresholds.md is this
table with what was counted, and a test holds the two together. Code reads them as attributes of this module, at every
use.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Threshold:
    """One number: what it decides and where it comes from."""

    name: str
    value: float
    decides: str
    derivation: str


# A hypothesis explains a result beyond its bound if it takes away so much of the distance ...
EXPLAINS = 0.5
# ... and one within its bound only if it takes away nearly all.
EXPLAINS_WITHIN = 0.2
# What fails at some outputs is named all the same if it leaves no more than this share of the distance.
NEARLY_ALL = 0.2
# Distances that differ by less than this share are ties.
TIE = 1e-9
# Of hypotheses that come so nearly as close as the closest, the first is named: it assumes least ...
ALIKE = 1.1
# ... and where results are stored on a grid, rounding to it hides more.
ALIKE_STORED = 1.3
# Outputs with hardly any magnitude count as if they had this share of the usual one.
SMALLEST_SHARE = 2.0**-8
# So many of the closest hypotheses are checked on every output.
MOST_CHECKED = 8.0
# Beyond so many products a recipe is replayed on a sample of outputs, and its cause is inferred.
MOST_REPLAYED_PRODUCTS = 3e9
# Fewer outputs that differ from the truth than this can be fitted by chance.
FEWEST_TELLING = 20.0
# A number added in each place explains the difference of two results if at most so much of it is left.
LEFT_BY_A_SHIFT = 0.001
# Bits that a recipe must get right that the truth does not.
FEWEST_BITS = 30.0
# A fault of a part fills the box around it to at least this share ...
LEAST_FILLED = 0.75
# ... and leaves at least the rest of all outputs right.
MOST_OF_ALL = 0.9
# Wrong outputs in no known region are a fault of some outputs only if they are so few.
MOST_SCATTERED = 0.5
# Before a fault that goes on to the end, so much, and so many outputs, are right.
LEAST_BEFORE = 0.1
FEWEST_BEFORE = 20.0
# The rest of a result with a fault in a part is at most so many times as far from the truth as a plain sum.
FAULT_FREE_TIMES = 8.0
# ... or the part is so many times farther off than the rest.
APART_TIMES = 2.0**6
# A result as close to the truth as this many times a plain sum needs no narrow arithmetic to explain it.
PLAIN_TIMES = 2.0
# A unit of a network that is so many times farther from the truth than its sums' roundings is searched for a reason.
UNUSUAL_TIMES = 4.0
# A changed node explains what is beyond its unit's bound if its own bound is smaller than more than this share of that.
TELLING_SHARE = 0.5
# Another function is off by its own size; bfloat16 throughout loses 2^-8 of a sum that does not cancel.
SMALL_LOSS = 2.0**-4
# Errors up to this many unit roundoffs of a channel's largest sum of magnitudes may be the noise of a transform.
TRANSFORM_NOISE = 2.0**8
# Errors up to this share of a channel's largest sum of magnitudes may be the noise of a transform in half precision.
HALF_TRANSFORM_NOISE = 2.0**-3
# An arrangement of transforms explains a result if it leaves no more than this of the distance.
ARRANGEMENT = 0.8
# Rounded spectra of a Fourier transform explain a result if they leave no more than this of the distance.
SPECTRA = 0.3
# Winograd's come closer in this share of the rows.
CLOSER_ROWS = 0.8
# Numbers rounded to the nearest never go to the farther neighbour; those rounded by chance do so this often, or more.
FARTHER_SHARE = 0.05
# A weight that is solved for may be off by so many times its own doubt.
WEIGHT_DOUBTS = 6.0
# Mechanisms that come about as near to a logged share as the nearest, by this factor, are named with it.
ABOUT_AS_NEAR = 2.0
# Errors are called periodic if chance gives such a period less often.
CHANCE_PERIOD = 1e-9
# Errors are called one-signed if chance makes them so less often: outputs are not quite independent of each other.
CHANCE_ONE_SIGNED = 1e-12
# So many channels at least, and such a share of them, must lose: their own errors have signs of their own.
FEWEST_CHANNELS, LOSING_CHANNELS = 8.0, 0.95
# A factor that all outputs share is off by no more than so many units roundoff: what is lost beyond that tells of sums.
SHARED_FACTOR = 4.0
# A period of tiles explains so many times what periods explain that no transform has.
PERIOD_TIMES = 1.5
# Outputs with products of at most this share of the largest in their plane have errors of their own size in direct sums;
# those that are at least so large compared with the others' follow the plane.
SMALL_TERMS, FLAT = 2.0**-4, 0.5
# Errors of which so much is linear in an operand are not those of sums.
SHARED_ERRORS = 0.3
# Errors are those of sums if the next kind of error is so much less likely ...
CHANCE_SUMS = 1e-9
# ... and if they grow with partial sums so many standard errors from none.
FOLLOWING_SIGMAS = 8.0
# ... with at least this power: a last rounding is in the errors, too.
LEAST_POWER = 0.3
# Errors are roundings if they are those of this many bits or more, and no single ones decide their fourth moment.
FEWEST_NOISE_BITS, MOST_FOURTH = 5.0, 16.0
# Values beyond this many times the sum of magnitudes are none that a sum of these products can have.
IMPOSSIBLE = 4.0
# So much of a set of values makes them all zeros, or all impossible.
MAJORITY = 0.5
# Of random bits as float32 a good part is larger than any sum, and the middle eight tenths span so many
# powers of two.
SOME_IMPOSSIBLE, RANDOM_OCTAVES = 0.1, 60.0
# Within the bound, a result that lost this share of its digits is a difference of large terms.
LOST_DIGITS = 0.5
# What has fitted numbers explains a result only if it leaves no more than so many times a plain sum's rounding.
FITTED_TIMES = 4.0
# Of values that were rounded to a format about half have its last digit; fewer are numbers that were short before.
LEAST_ODD = 0.25
# Errors as large as an operand's rounding are within this factor of its standard deviation.
ERROR_SIZE = 1.5
# Weights that are off by more than this share of their size are others; four bits leave less.
COARSE_OPERAND = 1 / 6
# Operands that are off by less than this share of their size were not stored in eight bits ...
LEAST_OF_EIGHT_BITS = 1 / 254
# ... and by less than this share not in few bits, of which not all ways to choose steps are tried ...
LEAST_OF_FEW_BITS = 1 / 32
# ... and those that have less in common with the recorded ones than this are not these, stored in any bits.
LEAST_OF_ITSELF = 0.5
# Where errors are larger than this share of what products add up to, so much of them that follows no partial sum is of
# operands.
LARGE_LOSS, LEFT_BY_LOSSES = 1 / 4, 0.2
# Results of other operands have no more in common with the right one than this correlation ...
UNRELATED = 0.3
# ... over so many outputs, and sizes within this factor.
FEWEST_UNRELATED, ALIKE_SIZE = 200.0, 4.0
# A factor and a shift per channel are fitted only to this many values or more.
FEWEST_PER_CHANNEL = 8.0
# Logged means and ratios agree within so many standard errors.
SIGMAS = 5.0
# Logged values are those of the rebuilt operands if chance brings others as near less often: followed, and proved.
CHANCE_FOLLOWS, CHANCE_REPLAYED = 1e-2, 1e-9
# A logged share of the largest output suggests a mechanism whose own is within this factor.
NEAREST_FACTOR = 10.0
# A transform of the right size but another sequence of channels still gives this share of an engine's bits.
LEAST_TRANSFORM_MATCH = 0.2
# So many times their bounds away lie outputs of a row function of which a part alone is explained as another function.
CLEARLY_WRONG = 8.0

TABLE: tuple[Threshold, ...] = (
    Threshold("EXPLAINS", EXPLAINS, "cause", "half the distance is a quarter of the squared error: a prediction that is"
              " independent of the result's own error adds its square, so that it can only come closer if it is right"),
    Threshold("NEARLY_ALL", NEARLY_ALL, "cause", "a twenty-fifth of the squared error is left, as by ties that went the"
              " other way or a second, smaller loss; EXPLAINS leaves a quarter"),
    Threshold("EXPLAINS_WITHIN", EXPLAINS_WITHIN, "rounding or downgrade", "inside the bound an order of addition alone"
              " gives distances up to the bound; a fifth leaves a twenty-fifth of the squared error"),
    Threshold("TIE", TIE, "which of equal hypotheses is named", "rounding of the distance itself, 2^-53 times a sample of"
              " up to 2^22 outputs"),
    Threshold("ALIKE", ALIKE, "which of nearly equal hypotheses is named; that errors are of the data", "what a mechanism explains it takes to the noise of"
              " rounding, a hundredth or less; a tenth is noise in the distance itself"),
    Threshold("ALIKE_STORED", ALIKE_STORED, "which of nearly equal hypotheses is named", "the same, where what is left comes"
              " from the few values that lie near the middle between two steps"),
    Threshold("SMALLEST_SHARE", SMALLEST_SHARE, "cause", "outputs whose terms are nearly all zero would otherwise decide alone"
              " which prediction is closest"),
    Threshold("MOST_CHECKED", MOST_CHECKED, "cause", "only time: the right hypothesis was always the first or second"),
    Threshold("MOST_REPLAYED_PRODUCTS", MOST_REPLAYED_PRODUCTS, "evidence level, wrong or downgrade", "only time: a second"
              " a recipe; of larger problems a sample is replayed, and what a sample shows is inferred"),
    Threshold("FEWEST_TELLING", FEWEST_TELLING, "rounding or downgrade", "2^-20: the chance that the error of every output"
              " has the sign that a hypothesis predicts"),
    Threshold("LEFT_BY_A_SHIFT", LEFT_BY_A_SHIFT, "which relation of two results is said", "inferred, and called so:"
              " roundings, and faults that are no shift, leave most of the difference"),
    Threshold("FEWEST_BITS", FEWEST_BITS, "rounding or downgrade", "a thousand hypotheses, each right by luck with 2^-30:"
              " one time in a million"),
    Threshold("LEAST_FILLED", LEAST_FILLED, "cause", "of a part with values of its own some are right by chance"),
    Threshold("MOST_OF_ALL", MOST_OF_ALL, "overflow or uninitialized-memory", "what is beyond its bound nearly everywhere is"
              " no fault of a part"),
    Threshold("MOST_SCATTERED", MOST_SCATTERED, "wrong or undecided", "what is right in half of all outputs computes them"
              " right"),
    Threshold("LEAST_BEFORE", LEAST_BEFORE, "index-overflow", "an index that wraps around leaves what is before it right"),
    Threshold("FEWEST_BEFORE", FEWEST_BEFORE, "index-overflow", "as FEWEST_TELLING"),
    Threshold("FAULT_FREE_TIMES", FAULT_FREE_TIMES, "cause", "orders of addition differ in accuracy by a few times, narrower"
              " sums by 2^13 (float16) or more"),
    Threshold("APART_TIMES", APART_TIMES, "cause", "the rest may be a transform's, within its bound; the noise of one"
              " transform differs by 10 times at most from output to output"),
    Threshold("PLAIN_TIMES", PLAIN_TIMES, "which hypotheses are tried", "only speed and chance fits: what is as accurate as"
              " float32 sums was not kept in float16"),
    Threshold("UNUSUAL_TIMES", UNUSUAL_TIMES, "which units of a network are searched within their bound", "only speed: random"
              " signs keep roundings below one, sums of one sign below the root of K; TF32 operands make 2^13 over that root"),
    Threshold("TELLING_SHARE", TELLING_SHARE, "fusion or undecided in a network", "a bound that explains anything is wider than"
              " nearly every deviation; of one that does not, where two functions cross, single ones"),
    Threshold("SMALL_LOSS", SMALL_LOSS, "wrong or undecided", "2^-8 of rounding to bfloat16, 16 times as much for K = 256"
              " of random sign"),
    Threshold("TRANSFORM_NOISE", TRANSFORM_NOISE, "wrong or undecided", "F(6,3), the noisiest usual transform, was measured"
              " up to 60 unit roundoffs of the largest sum of magnitudes, Fourier transforms up to 10"),
    Threshold("HALF_TRANSFORM_NOISE", HALF_TRANSFORM_NOISE, "wrong or undecided", "F(6,3) in float16 was measured up to 0.018"
              " of the largest sum of magnitudes, and bfloat16 has three bits less"),
    Threshold("ARRANGEMENT", ARRANGEMENT, "winograd or undecided", "arrangements that are not the right one left 0.87 or more;"
              " where results have few digits the right one leaves what their rounding decides"),
    Threshold("SPECTRA", SPECTRA, "fft or undecided", "the right arrangement left 0.15 or less, of Winograd's transforms the"
              " closest of the wrong ones 0.55 or more"),
    Threshold("CLOSER_ROWS", CLOSER_ROWS, "winograd or undecided", "of the right arrangement 15 of 16 rows at least, mostly all,"
              " were closer; of others that came closer over all rows, half"),
    Threshold("FARTHER_SHARE", FARTHER_SHARE, "cause", "between a tenth and a third of the way to the farther neighbour"
              " stochastic rounding goes there in a fifth of all cases, on average; the likely errors of sums never take"
              " them past the middle"),
    Threshold("WEIGHT_DOUBTS", WEIGHT_DOUBTS, "cause", "chance of a normal error beyond six times its standard"
              " deviation: 2e-9"),
    Threshold("ABOUT_AS_NEAR", ABOUT_AS_NEAR, "cause of a logged mismatch", "shares of single data sets vary by some"
              " tenths; of 16 simulated MIOpen logs 7 were named rightly where one mechanism was named only"),
    Threshold("CHANCE_PERIOD", CHANCE_PERIOD, "winograd or undecided", "the error probability per result that statistics are"
              " held to"),
    Threshold("CHANCE_ONE_SIGNED", CHANCE_ONE_SIGNED, "rounding or downgrade", "a thousandth of 1e-9, because outputs that"
              " read the same inputs share some of their errors"),
    Threshold("SHARED_FACTOR", SHARED_FACTOR, "rounding or downgrade", "SciPy's float32 transforms lose 0.9 to 1.2 units of"
              " every output, by constants that are rounded; truncated sums of 72 products and more 8 to 40"),
    Threshold("FEWEST_CHANNELS", FEWEST_CHANNELS, "rounding or downgrade", "of eight signs all are alike once in 256 times,"
              " in addition to what single outputs show"),
    Threshold("LOSING_CHANNELS", LOSING_CHANNELS, "rounding or downgrade", "one of twenty channels may have hardly any error"),
    Threshold("PERIOD_TIMES", PERIOD_TIMES, "winograd or undecided", "what is common to all channels, as bars of one grey, has"
              " some of every period"),
    Threshold("SMALL_TERMS", SMALL_TERMS, "fft or undecided", "a direct sum's error is at most a sixteenth as large there"),
    Threshold("FLAT", FLAT, "fft or undecided", "eight times what direct sums could have"),
    Threshold("SHARED_ERRORS", SHARED_ERRORS, "cause", "all of the errors where one operand is another, half where both are"
              " rounded alike; nothing where sums are rounded"),
    Threshold("CHANCE_SUMS", CHANCE_SUMS, "cause", "the chance of one error in a thousand million results"),
    Threshold("FOLLOWING_SIGMAS", FOLLOWING_SIGMAS, "cause", "a probability of 1e-15, as ten kinds of sums are tried; 4"
              " was the most that quantised operands and transforms had, 12 the least of sums"),
    Threshold("LEAST_POWER", LEAST_POWER, "cause", "1 where all errors are roundings of sums; quantised operands and"
              " transforms had 0.14 at most"),
    Threshold("FEWEST_NOISE_BITS", FEWEST_NOISE_BITS, "cause", "bfloat16 has 8 bits, and transforms round several times;"
              " another function is off by its own size"),
    Threshold("MOST_FOURTH", MOST_FOURTH, "cause", "3 of normal errors, up to 15 where a transform has few products;"
              " hundreds where a part is wrong"),
    Threshold("IMPOSSIBLE", IMPOSSIBLE, "uninitialized-memory", "no sum exceeds its sum of magnitudes; two for a doubled"
              " bias or product, two for narrow rounding"),
    Threshold("MAJORITY", MAJORITY, "uninitialized-memory, words", "more than half"),
    Threshold("SOME_IMPOSSIBLE", SOME_IMPOSSIBLE, "uninitialized-memory or another fault", "random bits of float32 are beyond any"
              " usual sum in nearly half of all cases"),
    Threshold("RANDOM_OCTAVES", RANDOM_OCTAVES, "uninitialized-memory or another fault", "exponents of random bits are spread over"
              " 254 powers of two, of which the middle eight tenths are 203"),
    Threshold("LOST_DIGITS", LOST_DIGITS, "summation-order or ill-conditioned", "half of the format's digits"),
    Threshold("FITTED_TIMES", FITTED_TIMES, "cause", "orders of addition differ in accuracy by a few times; a fit that merely"
              " helps leaves far more"),
    Threshold("LEAST_ODD", LEAST_ODD, "other-operands", "half of rounded numbers end in a one; short decimals and small"
              " integers seldom do"),
    Threshold("ERROR_SIZE", ERROR_SIZE, "other-operands", "the standard deviation of a few thousand errors is known to a few"
              " hundredths; formats of one digit less have twice the error"),
    Threshold("COARSE_OPERAND", COARSE_OPERAND, "quantized-operands or other-operands", "what four bits do at the worst, e2m1's"
              " codes 4 and 6 of 6; weights of four bits made by others were off by 0.09 to 0.14"),
    Threshold("LEAST_OF_EIGHT_BITS", LEAST_OF_EIGHT_BITS, "quantized-operands or other-operands", "step / sqrt(12), in shares of the root mean square of what uses all codes evenly, 127 steps / sqrt(3)"),
    Threshold("LEAST_OF_FEW_BITS", LEAST_OF_FEW_BITS, "quantized-operands or other-operands", "four bits with a step for 16"
              " values, whose largest are about two standard deviations, leave 0.08; codes of 8 bits are found by themselves"),
    Threshold("LEAST_OF_ITSELF", LEAST_OF_ITSELF, "quantized-operands or other-operands", "the signs alone of normal numbers have a correlation of 0.8 with them, other weights next to none"),
    Threshold("LARGE_LOSS", LARGE_LOSS, "low-precision-accumulator or undecided", "operands of which half is left out at random leave 0.7, half of one fifth 0.3; what truncated sums lose is smaller but in bfloat16"),
    Threshold("LEFT_BY_LOSSES", LEFT_BY_LOSSES, "low-precision-accumulator or undecided", "chains truncated in bfloat16 left 0.13 of large losses, operands left out at random 0.29"),
    Threshold("UNRELATED", UNRELATED, "wrong or undecided", "losses of precision leave more than nine tenths, faults of a part"
              " what is not in it; sums of the same inputs have some in common whatever the weights"),
    Threshold("FEWEST_UNRELATED", FEWEST_UNRELATED, "wrong or undecided", "a correlation over n outputs is off by one over the"
              " root of n: 0.07"),
    Threshold("ALIKE_SIZE", ALIKE_SIZE, "wrong or undecided", "operands of the same kind give results of about one size"),
    Threshold("FEWEST_PER_CHANNEL", FEWEST_PER_CHANNEL, "fusion", "two numbers fitted to eight leave six equations that must"
              " hold by themselves"),
    Threshold("SIGMAS", SIGMAS, "cause of a logged mismatch", "chance of a wrong match below 1e-6 for normal errors"),
    Threshold("CHANCE_FOLLOWS", CHANCE_FOLLOWS, "whether a log is replayed", "else it is explained by its ratio alone, as a"
              " log is whose operands are not known"),
    Threshold("CHANCE_REPLAYED", CHANCE_REPLAYED, "level of a logged verdict", "the error probability per result that"
              " statistics are held to"),
    Threshold("NEAREST_FACTOR", NEAREST_FACTOR, "suggestion for a log without values", "mechanisms' shares lie a factor of"
              " 3 to 10 apart (bfloat16 to TF32 to float16); undecided in any case"),
    Threshold("LEAST_TRANSFORM_MATCH", LEAST_TRANSFORM_MATCH, "family in a profile", "two transforms that round differently"
              " agree in one output of four or more; a direct sum in one of ten"),
    Threshold("CLEARLY_WRONG", CLEARLY_WRONG, "wrong or undecided", "what is a little beyond a bound lies near many things; fault"
              "s of other code were 20 times beyond it or more"),
)  # fmt: skip
