"""The line-up: suspects tried by replay against one recorded result, until one explains it.

A suspect explains better than the declared function if its prediction is closer to the result: rounding noise of
another order is independent of a suspect's error, so that for a healthy result the truth itself is always the closest.
No tolerance is involved in the choice; what is chosen is then held against every output and its bound, or replayed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from samebits.bounds import accumulator_format
from samebits.diagnosis.measuring import Distances, mark_differing_bits, measure_absolute
from samebits.emulators import emulate
from samebits.errors import RecipeError
from samebits.findings import Certainty, Evidence, Replay, Verdict
from samebits.formats.format import find_format
from samebits.recipes.recipe import Recipe
from samebits.recipes.text import format_recipe
from samebits.suspects import (
    Sample,
    Study,
    Suspect,
    list_finishing_suspects,
    list_fitted_suspects,
    list_geometry_suspects,
    list_layout_suspects,
    list_operand_recipes,
    list_operand_suspects,
    list_order_suspects,
    list_recipe_suspects,
    list_transform_suspects,
)
from samebits.suspects.study import Floats

Report = Callable[[str, float], None]
# A quarter of the energy: half of the distance.
_EXPLAINS = 0.5
_TIE = 1 + 1e-9
_MOST_CHARGED = 8
_FEWEST_TELLING = 20
# A thousand suspects hit this many bits by luck one time in a million.
_FEWEST_BITS = 30
# Within the bound a suspect must take away nearly all of the error before anybody is accused.
_EXPLAINS_WITHIN = 0.2
_MOST_REPLAYED_PRODUCTS = 3e9
_TINY_ROWS, _TINY_POSITIONS = 4, 24
_RECIPE_ROWS, _RECIPE_POSITIONS = 8, 64


@dataclass
class Explanation:
    """What the line-up found for one result.

    `certainty`: `bits` (replayed), `bounds` (every output is within the bound of the suspect's function, not of the
    declared one), `statistics`, or `open`. `others` are suspects that the data cannot tell from the one named;
    `sampled` tells that not all outputs were held against the suspect.
    """

    verdict: Verdict
    cause: str | None = None
    says: str = ""
    certainty: Certainty = "open"
    recipe: Recipe | None = None
    replay: Replay | None = None
    tried: int = 0
    sampled: bool = False
    others: list[str] = field(default_factory=list[str])
    evidence: list[Evidence] = field(default_factory=list[Evidence])


@dataclass
class LineUp:
    """One study being gone through, whose result is at these distances from the truth; `tried` counts suspects."""

    study: Study
    distances: Distances
    report: Report
    tried: int = 0

    def run(self) -> Explanation | None:
        """The suspect that explains the result, or None where none does."""
        study = self.study
        sample = study.choose_sample()
        healthy = self._prove_order()
        if healthy:
            return healthy
        found = self._try_functions(self._list_functions(), sample)
        if found is not None:
            return found
        if self.is_as_close_as_a_plain_sum(sample):
            return self._try_recipes(list_transform_suspects(study.problem), sample)
        return self._try_recipes(list_recipe_suspects(study.problem), sample)

    def run_fitted(self) -> Explanation | None:
        """Suspects with free numbers; asked when nothing else fits."""
        return self._try_functions(list_fitted_suspects(self.study.problem), self.study.choose_sample())

    def _try_functions(self, suspects: Iterable[Suspect], sample: Sample) -> Explanation | None:
        """The closest of the suspects that explain better than the declared function and all outputs."""
        declared = self._measure(sample, sample.pick(self.study.truth).astype(np.float64))
        within = self.distances.within_bound
        most = (_EXPLAINS_WITHIN if within else _EXPLAINS) * declared
        if within and len(self._telling) < _FEWEST_TELLING:
            return None
        ranked = self._rank(suspects, sample, most)
        for suspect, distance in ranked[:_MOST_CHARGED]:
            alike = [s for s, d in ranked if distance <= d <= distance * _TIE and s is not suspect]
            found = self._convict(suspect, alike)
            if found:
                return found
        return None

    def _list_functions(self) -> Iterator[Suspect]:
        problem = self.study.problem
        if not self.study.result.any():
            # Whatever reads nothing but padding gives zeros.
            return list_operand_suspects(problem)
        return itertools.chain(
            list_operand_suspects(problem),
            list_finishing_suspects(problem),
            list_geometry_suspects(problem),
            list_layout_suspects(problem),
        )

    def _measure(self, sample: Sample, predicted: Floats) -> float:
        """The root of the mean squared distance of a prediction, in shares of each output's sum of magnitudes."""
        given = sample.pick(self.study.result).astype(np.float64)
        scale = sample.pick(self.study.magnitudes)
        usual = float(np.mean(scale[np.isfinite(scale)])) if np.isfinite(scale).any() else 1.0
        scale = np.maximum(scale, usual / 256 or 1e-300)
        with np.errstate(all="ignore"):
            away = np.abs(given - predicted) / scale
        away[(given == predicted) | (np.isnan(given) & np.isnan(predicted))] = 0.0
        away = np.minimum(np.nan_to_num(away, nan=1.0, posinf=1.0), 1.0)
        return float(np.sqrt(np.mean(away**2)))

    @functools.cached_property
    def _telling(self) -> Floats:
        """The distances, in steps, of outputs that differ from the truth; of outputs that are alike, one.

        Where there are few of them a suspect may fit them by chance. A step is what one addition may be off by: the
        accumulator's precision of the sum of magnitudes, or the result's own precision; 1 for what is no number.
        """
        study = self.study
        differing = mark_differing_bits(study.result, study.truth)
        values = np.stack([a[differing].astype(np.float64) for a in (study.result, study.truth, study.magnitudes)])
        _, first = np.unique(values, axis=1, return_index=True)
        given, truth, magnitudes = values[:, first]
        units = [float(f.unit_roundoff) for f in (accumulator_format(study.problem), find_format(study.problem.out))]
        with np.errstate(all="ignore"):
            steps = np.abs(given - truth) / np.maximum(magnitudes * units[0], np.abs(truth) * units[1])
        return np.where(np.isfinite(steps), steps, 1.0)

    def _count_bits(self) -> float:
        """How many bits a suspect must get right that the truth does not: log2(1 + its distance) for each output."""
        return float(np.log2(1 + self._telling).sum())

    def _rank(self, suspects: Iterable[Suspect], sample: Sample, most: float) -> list[tuple[Suspect, float]]:
        """Suspects that come closer to the result than `most`, the closest first; ties as they come."""
        ranked: list[tuple[Suspect, float]] = []
        for suspect in suspects:
            self.tried += 1
            if self.tried % 8 == 0:
                self.report("trying suspects", 0.0)
            predicted = suspect.predict(self.study, sample)
            if predicted is None:
                continue
            distance = self._measure(sample, predicted)
            if distance < most:
                ranked.append((suspect, distance))
        return sorted(ranked, key=lambda pair: pair[1])

    def _convict(self, suspect: Suspect, ties: list[Suspect]) -> Explanation | None:
        """The suspect held against every output: within the bound of its function; then recipes, bit for bit."""
        study = self.study
        sampled = not study.is_small(_MOST_REPLAYED_PRODUCTS)
        whole = study.choose_sample() if sampled else study.whole()
        predicted = suspect.predict(study, whole)
        if predicted is None:
            return None
        given = whole.pick(study.result).astype(np.float64)
        allowed = self._allow(whole, predicted, suspect.unit)
        if not (measure_absolute(given, predicted) <= allowed).all():
            return None
        beyond = int((whole.pick(self.distances.over_bound) > 1.0).sum())
        count = given.size
        if suspect.verdict == "wrong" and not beyond:
            return None
        which = f"{count:,} sampled of {study.result.size:,}" if sampled else f"{count:,}"
        says = f"all {which} outputs are within the rounding bound of that"
        says += f"; {beyond:,} are beyond the bound of what was declared" if beyond else ""
        certainty: Certainty = "bounds" if beyond and not sampled else "statistics"
        found = Explanation(suspect.verdict, suspect.cause, suspect.says, certainty, tried=self.tried, sampled=sampled)
        if not beyond:
            says += " and, taken together, much closer to it than to what was declared"
        found.evidence.append(Evidence("structure" if beyond else "statistic", says))
        found.others = [s.says for s in ties]
        self._replay_suspect(suspect, found)
        return found

    def _allow(self, sample: Sample, predicted: Floats, unit: float) -> Floats:
        """The error bound of a suspect's function, each row's largest sum of magnitudes standing for all of it."""
        study = self.study
        problem = study.problem
        accumulator, out = accumulator_format(problem), find_format(problem.out)
        magnitudes = sample.pick(study.magnitudes)
        largest = np.where(np.isfinite(magnitudes), magnitudes, 0.0).max(axis=1, keepdims=True)
        summed = (problem.reduction_length + 2) * (float(accumulator.unit_roundoff) + 2.0**-52) * largest
        with np.errstate(invalid="ignore"):
            size = np.where(np.isfinite(predicted), np.abs(predicted), 0.0) + summed
            beside = 2 * unit * size.max(axis=1, keepdims=True) if unit else 0.0
            return summed + 2 * float(out.unit_roundoff) * size + beside + 2 * float(out.smallest_subnormal)

    def _replay_suspect(self, suspect: Suspect, found: Explanation) -> None:
        """Turns a conviction by bounds into one by bits where a usual order reproduces them."""
        study = self.study
        if suspect.recipe is not None:
            problem, operands, recipes = (
                study.problem,
                dict(study.operands),
                list_operand_recipes(study.problem, suspect.recipe),
            )
        else:
            altered = suspect.reenact(study) if suspect.reenact else None
            if altered is None:
                return
            problem, operands = altered
            recipes = (s.recipe for s in list_order_suspects(problem) if s.recipe)
        stage = replace(study, problem=problem, operands=operands, cache={})
        recipe = self._find_by_bits(stage, recipes)
        if recipe is not None:
            self._prove(found, recipe)

    def _prove(self, found: Explanation, recipe: Recipe) -> None:
        """Notes a recipe that reproduced all outputs, or, of a problem too large to replay whole, all of a sample."""
        study = self.study
        total = study.result.size
        found.sampled = not study.is_small(_MOST_REPLAYED_PRODUCTS)
        count = int(study.choose_sample().mark().sum()) if found.sampled else total
        found.certainty = "statistics" if found.sampled else "bits"
        found.recipe, found.replay = recipe, Replay(1.0, count)
        which = (
            f"{count:,} of {count:,} sampled outputs (of {total:,})"
            if found.sampled
            else f"{count:,} of {count:,} outputs"
        )
        says = f"replaying {format_recipe(recipe)[:120]} gives {which} bit for bit"
        found.evidence.insert(0, Evidence("replay", says))

    def _prove_order(self) -> Explanation | None:
        """A plain or common order that reproduces a result within its bound: rounding, proved."""
        study = self.study
        recipes = [s.recipe for s in list_order_suspects(study.problem) if s.recipe]
        recipe = self._find_by_bits(study, recipes)
        self.tried += len(recipes) if recipe is None else recipes.index(recipe) + 1
        if recipe is None:
            return None
        found = Explanation("rounding", "summation-order", "adds the declared products in an order of its own")
        self._prove(found, recipe)
        found.tried = self.tried
        return found

    def _find_by_bits(self, study: Study, recipes: Iterable[Recipe]) -> Recipe | None:
        """The first recipe that reproduces a few outputs, then all."""
        few = study.choose_sample().thin(_TINY_ROWS, _TINY_POSITIONS)
        mask = few.mark()
        for recipe in recipes:
            if self._share(study, recipe, mask) == 1.0 and self._replays_all(study, recipe):
                return recipe
        return None

    def _replays_all(self, study: Study, recipe: Recipe) -> bool:
        if not study.is_small(_MOST_REPLAYED_PRODUCTS):
            return self._share(study, recipe, study.choose_sample().mark()) == 1.0
        return self._share(study, recipe, None) == 1.0

    def _share(self, study: Study, recipe: Recipe, mask: npt.NDArray[np.bool_] | None) -> float:
        try:
            replayed = emulate(study.problem, recipe, study.operands, wanted=mask)
        except RecipeError:
            return 0.0
        same = ~mark_differing_bits(replayed, study.result)
        return float((same if mask is None else same[mask]).mean())

    def is_as_close_as_a_plain_sum(
        self, sample: Sample, left_out: npt.NDArray[np.bool_] | None = None, times: float = 2.0
    ) -> bool:
        """Whether the result is about as close to the truth as the plainest sum in the declared formats is.

        `left_out` marks outputs that do not count.
        """
        away, usual = self._compare_with_plain(sample, left_out)
        return len(usual) > 0 and bool(np.linalg.norm(away) <= times * np.linalg.norm(usual))

    def share_worse_than_plain(self, sample: Sample) -> float:
        """The share of sampled outputs that are farther from the truth than the plainest sum is anywhere."""
        away, usual = self._compare_with_plain(sample)
        return float((away > usual.max()).mean()) if len(usual) else 0.0

    def _compare_with_plain(
        self, sample: Sample, left_out: npt.NDArray[np.bool_] | None = None
    ) -> tuple[Floats, Floats]:
        """Distances from the truth of the result and of the plainest sum, in shares of the sums of magnitudes.

        Of outputs in a small sample where the plain sum is a number; there may be none.
        """
        few = sample.thin(_RECIPE_ROWS, _RECIPE_POSITIONS)
        plain = next(list_order_suspects(self.study.problem)).predict(self.study, few)
        if plain is None:
            return np.empty(0), np.empty(0)
        truth, scale = few.pick(self.study.truth).astype(np.float64), few.pick(self.study.magnitudes)
        counts = np.isfinite(truth) & np.isfinite(plain) & (scale > 0)
        if left_out is not None:
            counts &= ~few.pick(left_out)
        away = few.pick(self.distances.absolute)[counts] / scale[counts]
        return away, measure_absolute(plain, truth)[counts] / scale[counts]

    def _try_recipes(self, suspects: Iterable[Suspect], sample: Sample) -> Explanation | None:
        """Narrow accumulators, carries, transforms, flushes: by bits, else by how close they come."""
        study = self.study
        few, tiny = sample.thin(_RECIPE_ROWS, _RECIPE_POSITIONS), sample.thin(_TINY_ROWS, _TINY_POSITIONS)
        declared = self._measure(tiny, tiny.pick(study.truth).astype(np.float64))
        telling = self._count_bits() >= _FEWEST_BITS
        close: list[tuple[float, Suspect]] = []
        for suspect in suspects:
            self.tried += 1
            if self.tried % 8 == 0:
                self.report("replaying suspects", 0.0)
            predicted = suspect.predict(study, tiny)
            if predicted is None or suspect.recipe is None or (study.result.any() and not predicted.any()):
                continue
            same = ~mark_differing_bits(predicted.astype(study.result.dtype), tiny.pick(study.result))
            if same.all() and telling and self._replays_all(study, suspect.recipe):
                return self._conclude_recipe(suspect)
            distance = self._measure(tiny, predicted)
            if distance < _EXPLAINS * declared:
                close.append((distance, suspect))
        return self._choose_closest([s for _, s in sorted(close, key=lambda pair: pair[0])[:_MOST_CHARGED]], few)

    def _conclude_recipe(self, suspect: Suspect) -> Explanation:
        found = Explanation(suspect.verdict, suspect.cause, suspect.says, tried=self.tried)
        if suspect.cause in ("winograd", "fft") and self.distances.within_bound:
            found.verdict = "rounding"
        assert suspect.recipe is not None
        self._prove(found, suspect.recipe)
        return found

    def _choose_closest(self, suspects: list[Suspect], sample: Sample) -> Explanation | None:
        """The recipe that comes closest on more outputs, none having reproduced the bits: no more than statistics.

        A result within its bound is not accused by statistics of this kind.
        """
        if self.distances.within_bound:
            return None
        declared = self._measure(sample, sample.pick(self.study.truth).astype(np.float64))
        best = [(self._measure(sample, p), s) for s in suspects if (p := s.predict(self.study, sample)) is not None]
        distance, suspect = min(best, key=lambda pair: pair[0], default=(np.inf, None))
        if suspect is None or distance >= _EXPLAINS * declared:
            return None
        found = Explanation(suspect.verdict, suspect.cause, suspect.says, "statistics", tried=self.tried)
        share = f"{1 - (distance / declared) ** 2:.0%}"
        found.evidence.append(
            Evidence("statistic", f"that takes away {share} of the squared error; nothing tried takes all")
        )
        return found
