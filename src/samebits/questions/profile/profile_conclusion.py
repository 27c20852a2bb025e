"""From what was asked to the finding: a profile says what is known, and null where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.stages import SearchResult
from samebits.engines.runner import Identity
from samebits.findings import Evidence, ExactData, Replay
from samebits.findings.comparison_schema import EvidenceKind
from samebits.findings.words.order_words import describe_order
from samebits.problems import Problem, format_problem
from samebits.problems.terms import find_terms
from samebits.problems.windows import name_axes
from samebits.questions.profile.profile_schema import Invariances, OrderUse, Profile
from samebits.questions.profile.profile_sentences import (
    HALF_FORMATS,
    say_accumulator,
    say_bias,
    say_impulse,
    say_product,
    say_proof,
    summarize_another,
    summarize_profile,
    summarize_unrepeated,
)
from samebits.sums.recipes.order import expand_order
from samebits.sums.recipes.order_map import array_from_places, format_places
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_order, format_recipe
from samebits.sums.recipes.tree import Item, restrict_tree
from samebits.version import VERSION

_ORDERS_SHOWN = 8
# Source: TensorFlow's cuDNN wrapper reads it, as the report with seed 2 says; it has no effect on a CPU.
_ACCUMULATOR_SETTINGS = {
    "tensorflow": "env.TF_FP16_CONV_USE_FP32_COMPUTE=0 asks cuDNN for float16 sums on a GPU; on a CPU nothing",
}


@dataclass(frozen=True)
class InvarianceAnswers:
    """What changes the bits, as far as it was asked."""

    known: Mapping[str, bool | None] = field(default_factory=dict[str, "bool | None"])
    distinct: int | None = None
    evidence: tuple[Evidence, ...] = ()

    def add(self, name: str, answer: bool | None) -> InvarianceAnswers:
        """These answers and one more."""
        return replace(self, known={**self.known, name: answer})

    def note(self, kind: EvidenceKind, says: str) -> InvarianceAnswers:
        """These answers and a remark."""
        return replace(self, evidence=(*self.evidence, Evidence(kind, says)))


@dataclass(frozen=True)
class Profiled:
    """What is known of a runner, part by part; `failure` says why no more was asked."""

    identity: Identity | None = None
    search: SearchResult = field(default_factory=SearchResult)
    replay_case: Replay | None = None
    invariances: InvarianceAnswers = field(default_factory=InvarianceAnswers)
    on_integers: tuple[ExactData, bool] | None = None
    failure: str | None = None

    @property
    def computes_another(self) -> bool:
        """Whether exact integers show another function than the problem's."""
        return self.on_integers is not None and self.on_integers[1]

    def with_search(self, search: SearchResult) -> Profiled:
        """With what a recipe search found."""
        return replace(self, search=search)

    def with_case(self, replay: Replay) -> Profiled:
        """With how much of a case's own result the recipe reproduces."""
        return replace(self, replay_case=replay)

    def with_integers(self, found: ExactData, beyond: bool) -> Profiled:
        """With what came of exact integers, and whether rounding could not have made it."""
        return replace(self, on_integers=(found, beyond))

    def with_invariances(self, answers: InvarianceAnswers) -> Profiled:
        """With what changes the bits."""
        return replace(self, invariances=answers)

    def fail(self, says: str) -> Profiled:
        """With the reason why no more was asked."""
        return replace(self, failure=says)


def conclude_profile(text: str, session: ProbeSession, known: Profiled) -> Profile:
    """The profile of the runner with this text."""
    search, problem, identity = known.search, session.problem, known.identity
    chosen, order = search.chosen, search.order
    # A recipe that reproduces nothing is none.
    recipe = chosen.recipe if chosen.matched > 0.0 else None
    uses = _count_uses(problem, recipe) if recipe and chosen.compared else []
    accumulator = _name_accumulator(search)
    replay = Replay(chosen.matched, chosen.compared) if recipe else None
    family = search.family.family if search.family else None
    return Profile(
        problem=format_problem(problem.stated or problem),
        engine=text,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        summary=_summarize(known, problem, recipe, replay, accumulator, len(uses)),
        recipe=format_recipe(recipe) if recipe else None,
        family=family,
        replay=replay,
        replay_case=known.replay_case,
        orders=len(uses) or None,
        order_uses=uses[:_ORDERS_SHOWN],
        where=format_places(recipe.where) if recipe else None,
        calls=session.calls,
        time_s=round(session.time_s, 4),
        order_calls=(order.calls or None) if order else None,
        order_time_s=round(order.time_s, 4) if order and order.calls else None,
        accumulator=accumulator,
        operands=_name_operands(search, problem),
        fma=_is_fused(search),
        bias=recipe.bias if recipe and problem.bias and chosen.is_whole else None,
        subnormals=search.special.subnormals.says if search.special.subnormals else None,
        invariant_to=Invariances(**known.invariances.known),
        distinct_results=known.invariances.distinct,
        special_values=dict(search.special.answers),
        exact_data=known.on_integers[0] if known.on_integers else None,
        computes_another=known.computes_another,
        evidence=[*_collect_evidence(search), *_name_settings(text, problem), *known.invariances.evidence],
        failure=known.failure,
        samebits_version=VERSION,
    )


def _summarize(
    known: Profiled,
    problem: Problem,
    recipe: Recipe | None,
    replay: Replay | None,
    accumulator: str | None,
    orders: int,
) -> str:
    if known.on_integers and known.computes_another:
        return summarize_another(known.on_integers[0])
    distinct = known.invariances.distinct
    if distinct and distinct > 1:
        return summarize_unrepeated(distinct)
    family = known.search.family.family if known.search.family else None
    return summarize_profile(recipe, replay, family, accumulator, orders, known.failure, problem.dtype)


def _count_uses(problem: Problem, recipe: Recipe) -> list[OrderUse]:
    """Every order of the recipe, in words, with the outputs that use it; the most used first."""
    terms = find_terms(problem)
    where = array_from_places(recipe.where, name_axes(problem), problem.out_shape)
    view = terms.view_result(where)
    number, masks = terms.patterns
    uses: list[OrderUse] = []
    for n, order in enumerate(recipe.orders):
        places = (view == n).any(axis=(0, 1, 2))
        if not places.any():
            continue
        exists = np.tile(masks[np.unique(number[places])].any(axis=0), terms.depth)
        tree: Item | None = expand_order(order, terms.axis_names, terms.axis_sizes)
        tree = restrict_tree(tree, exists)
        says = describe_order(order, tree, terms) if tree is not None else "no products"
        uses.append(OrderUse(format_order(order), says, int((where == n).sum())))
    return sorted(uses, key=lambda u: -u.outputs)


def _name_accumulator(search: SearchResult) -> str | None:
    """The running sum's format as the replayed recipe has it, else as the probe saw it."""
    if search.recipe and search.chosen.is_whole:
        return search.recipe.accumulator.format
    return next((a.format for a in search.arithmetic.accumulators if a.format), None)


def _name_operands(search: SearchResult, problem: Problem) -> dict[str, str | None]:
    """What x and w are multiplied as, and a bias that is rounded added; a gradient dy is named by itself."""
    named: dict[str, str | None] = {}
    is_bias_rounded = search.chosen.is_whole and search.recipe is not None and search.recipe.b is not None
    for name in (n for n in problem.operand_shapes if n != "bias" or is_bias_rounded):
        if search.recipe and search.chosen.is_whole:
            rounding = search.recipe.find_rounding(problem, name)
            named[name] = rounding.format if rounding else problem.dtype
        else:
            seen = search.arithmetic.operands.get(name)
            named[name] = (seen.format or problem.dtype) if seen and seen.known else None
    return named


def _is_fused(search: SearchResult) -> bool | None:
    product = search.arithmetic.product
    if search.recipe is None or not search.chosen.is_whole:
        return None
    if product and {"fused", "rounded"} <= set(product.possible):
        return None
    return search.recipe.product == "fused"


def _name_settings(text: str, problem: Problem) -> list[Evidence]:
    """The setting of this engine that changes what half-precision sums are kept in, where one is known."""
    says = _ACCUMULATOR_SETTINGS.get(text.partition(":")[0])
    return [Evidence("setting", says)] if says and problem.dtype in HALF_FORMATS else []


def _collect_evidence(search: SearchResult) -> list[Evidence]:
    """What each probe saw, the replay, and what stayed undetermined and why."""
    seen, chosen = search.arithmetic, search.chosen
    said: list[str] = []
    if search.family:
        said.append(say_impulse(search.family.wrong, search.family.leaked))
    said += [say_accumulator(a.terms, a.fraction_bits, a.mode, all_survive=a.survives_all) for a in seen.accumulators]
    if seen.product:
        said.append(say_product(seen.product.compared, seen.product.possible))
    if seen.bias:
        said.append(say_bias(seen.bias.kept, seen.bias.units))
    evidence = [Evidence("probe", says) for says in said]
    if chosen.recipe:
        evidence.append(Evidence("replay", say_proof(Replay(chosen.matched, chosen.compared), chosen.tried)))
    return [*evidence, *(Evidence("open", note) for note in search.notes)]
