"""The profile of an engine on a problem: recipe, proof, invariances, special values, as one finding."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from samebits.engines.catalog import ENGINES
from samebits.errors import ArgumentError, EngineFailure, ProbeStopped, ResourceLimitError, SamebitsError
from samebits.findings import Evidence, Invariances, OrderUse, Profile, Replay
from samebits.probes import invariances
from samebits.probes.interview import Interview
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case
from samebits.problems.subject import read_subject
from samebits.problems.terms import find_terms
from samebits.problems.windows import name_axes
from samebits.profiles.order_words import describe_order
from samebits.profiles.recipe_search import SearchResult, search_recipe
from samebits.profiles.replaying import Replayer
from samebits.recipes.order import expand_order
from samebits.recipes.places import array_from_places, format_places
from samebits.recipes.recipe import Recipe
from samebits.recipes.text import format_order, format_recipe
from samebits.recipes.tree import Item, restrict_tree
from samebits.registry import open_runner, parse_runner_text
from samebits.registry.runner_text import RunnerText, format_runner_text
from samebits.runner import Identity, Runner
from samebits.version import VERSION

Report = Callable[[str, float], None]
# What is asked where a person names no problem: large enough for the usual kernels, small enough to be quick.
USUAL_PROBLEM = "conv2d x=1x64x28x28 w=64x64x3x3 padding=1 bias dtype=float32"
_ORDERS_SHOWN = 8
# Source: TensorFlow's cuDNN wrapper reads it, as the report with seed 2 says; it has no effect on a CPU.
_ACCUMULATOR_SETTINGS = {
    "tensorflow": "env.TF_FP16_CONV_USE_FP32_COMPUTE=0 asks cuDNN for float16 sums on a GPU; on a CPU nothing",
}
# Settings whose effect on the bits is part of a profile: finding field -> engine setting, its other value.
_OTHER_SETTINGS = {"threads": ("threads", "1"), "layout": ("layout", "channels_last")}


@dataclass
class _Findings:
    """What the parts of a profile leave."""

    search: SearchResult = field(default_factory=SearchResult)
    invariant: dict[str, bool | None] = field(default_factory=dict[str, "bool | None"])
    distinct: int | None = None
    evidence: list[Evidence] = field(default_factory=list[Evidence])
    failure: str | None = None
    replay_case: Replay | None = None


def profile(
    engine: str | Runner,
    subject: str | Path | Problem | Case = USUAL_PROBLEM,
    *,
    time_limit_s: float = 300.0,
    most_time_s: float = 60.0,
    report: Report | None = None,
) -> Profile:
    """An engine's arithmetic on a problem, found by probing and proved by replay.

    `engine` is a text such as "torch:threads=1" or an object with the Runner protocol; `subject` a problem, its text or
    a case, whose operands are then replayed too. A runner that fails leaves a profile that says how far it came.
    `time_limit_s` holds for loading and for each call, `most_time_s` for all calls. Raises SamebitsError for a text
    that cannot be read or a problem too large for this machine.
    """
    if not isinstance(engine, (str, Runner)):
        raise ArgumentError(f"{engine!r} is neither an engine's text nor a runner")
    case = read_subject(subject)
    problem = case.problem if isinstance(case, Case) else case
    _check_size(problem)
    runner = open_runner(engine, time_limit_s=time_limit_s) if isinstance(engine, str) else engine
    found = _Findings()
    interview = Interview(runner, problem, most_time_s=most_time_s, report=report)
    say = report or (lambda what, share: None)
    identity: Identity | None = None
    try:
        say(f"loading {runner.text[:60]}", 0.0)
        identity = runner.identify()
        _ask_everything(interview, found, case, engine if isinstance(engine, str) else None, time_limit_s, say)
    except EngineFailure as error:
        found.failure = f"{error.kind}: {error}"
    except ProbeStopped as stop:
        found.failure = str(stop)
    except Exception as error:
        if isinstance(error, SamebitsError) or isinstance(engine, str):
            raise
        # A runner is anybody's code: whatever it raises is a finding.
        found.failure = f"error: {type(error).__name__}: {error}"
    finally:
        if isinstance(engine, str):
            runner.close()
    return _conclude(runner.text, identity, interview, found)


def _check_size(problem: Problem) -> None:
    """Raises ResourceLimitError where asking about every term would need more than a few GiB."""
    terms = find_terms(problem)
    if terms.count > 2**22 or terms.groups * terms.rows * terms.count > 2**29 or math.prod(problem.out_shape) > 2**29:
        raise ResourceLimitError(
            f"{format_problem(problem)} is too large to ask about every term; make batch or spatial size smaller"
        )


def _ask_everything(
    interview: Interview, found: _Findings, case: Problem | Case, text: str | None, time_limit_s: float, say: Report
) -> None:
    search_recipe(interview, found.search)
    search = found.search
    if isinstance(case, Case) and search.recipe:
        say("replaying the case", 0.5)
        replayer = Replayer(case.problem, case.operands, interview.ask(dict(case.operands)))
        matched, compared, _ = replayer.score(search.recipe)
        found.replay_case = Replay(matched, compared)
    say("asking what changes the bits", 0.8)
    _ask_invariances(interview, found, text, time_limit_s)


def _ask_invariances(interview: Interview, found: _Findings, text: str | None, time_limit_s: float) -> None:
    runner, problem = interview.runner, interview.problem
    operands, result = found.search.replayers[0].operands, found.search.replayers[0].result
    questions = {
        "batch_size": invariances.is_invariant_to_batch_size,
        "batch_position": invariances.is_invariant_to_batch_position,
        "length": invariances.is_invariant_to_length,
        "channel_order": invariances.is_invariant_to_channel_order,
    }
    found.distinct = invariances.count_distinct_results(runner, problem, operands)
    found.invariant["repeat"] = found.distinct == 1
    for name, question in questions.items():
        try:
            found.invariant[name] = question(runner, problem)
        except EngineFailure as error:
            found.evidence.append(Evidence("probe", f"{name} could not be tried: {error}"))
    for name in _OTHER_SETTINGS:
        other = _other_text(text, name)
        if other is None:
            continue
        changed = open_runner(other, time_limit_s=time_limit_s)
        try:
            found.invariant[name] = invariances.is_same_on(changed, problem, operands, result)
            found.evidence.append(Evidence("setting", f"{name}: compared with {other}"))
        except EngineFailure as error:
            found.evidence.append(Evidence("probe", f"{name} could not be tried: {error}"))
        finally:
            changed.close()


def _other_text(text: str | None, name: str) -> str | None:
    """The same engine with the other value of a setting it has."""
    if text is None:
        return None
    runner = parse_runner_text(text)
    setting, other = _OTHER_SETTINGS[name]
    if runner.name not in ENGINES or setting not in ENGINES[runner.name].load_class().settings:
        return None
    if runner.settings.get(setting) == other:
        return format_runner_text(
            RunnerText(runner.name, {k: v for k, v in runner.settings.items() if k != setting}, runner.environment)
        )
    return format_runner_text(RunnerText(runner.name, {**runner.settings, setting: other}, runner.environment))


def _conclude(text: str, identity: Identity | None, interview: Interview, found: _Findings) -> Profile:
    search, problem = found.search, interview.problem
    # A recipe that reproduces nothing is none.
    recipe = search.recipe if search.matched > 0.0 else None
    uses = _count_uses(problem, recipe) if recipe and search.compared else []
    accumulator = _name_accumulator(search)
    return Profile(
        problem=format_problem(problem),
        engine=text,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        summary=_summarize(found, accumulator, uses),
        recipe=format_recipe(recipe) if recipe else None,
        family=search.family.family if search.family else None,
        replay=Replay(search.matched, search.compared) if recipe else None,
        replay_case=found.replay_case,
        orders=len(uses) or None,
        order_uses=uses[:_ORDERS_SHOWN],
        where=format_places(recipe.where) if recipe else None,
        calls=interview.calls,
        time_s=round(interview.time_s, 4),
        order_calls=search.order_calls or None,
        order_time_s=round(search.order_time_s, 4) if search.order_calls else None,
        accumulator=accumulator,
        operands=_name_operands(search, problem),
        fma=_is_fused(search),
        bias=recipe.bias if recipe and problem.bias and search.matched == 1.0 else None,
        subnormals=search.subnormals.says if search.subnormals else None,
        invariant_to=Invariances(**found.invariant),
        distinct_results=found.distinct,
        special_values=search.special,
        evidence=[*_collect_evidence(search), *_name_settings(text, problem), *found.evidence],
        failure=found.failure,
        samebits_version=VERSION,
    )


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
    if search.recipe and search.matched == 1.0:
        return search.recipe.accumulator.format
    for accumulator in search.accumulators:
        if accumulator.format:
            return accumulator.format
    return None


def _name_operands(search: SearchResult, problem: Problem) -> dict[str, str | None]:
    """What x and w are multiplied as; a gradient dy is named by itself."""
    named: dict[str, str | None] = {}
    for name in problem.operand_shapes:
        if name == "bias":
            continue
        if search.recipe and search.matched == 1.0:
            rounding = search.recipe.find_rounding(problem, name)
            named[name] = rounding.format if rounding else problem.dtype
        else:
            seen = search.operands.get(name)
            named[name] = (seen.format or problem.dtype) if seen and seen.known else None
    return named


def _is_fused(search: SearchResult) -> bool | None:
    if search.recipe and search.matched == 1.0:
        if search.product and {"fused", "rounded"} <= set(search.product.possible):
            return None
        return search.recipe.product == "fused"
    return None


def _name_settings(text: str, problem: Problem) -> list[Evidence]:
    """The setting of this engine that changes what half-precision sums are kept in, where one is known."""
    says = _ACCUMULATOR_SETTINGS.get(text.partition(":")[0])
    return [Evidence("setting", says)] if says and problem.dtype in ("float16", "bfloat16") else []


def _collect_evidence(search: SearchResult) -> list[Evidence]:
    evidence: list[Evidence] = []
    if search.family:
        response = search.family
        evidence.append(
            Evidence(
                "probe",
                f"one source value of 1: {100 * response.wrong:.3g} % of the outputs it reaches differ from their"
                f" weight, {100 * response.leaked:.3g} % of the others are not zero",
            )
        )
    for accumulator in search.accumulators:
        a, b, c = accumulator.terms
        evidence.append(
            Evidence(
                "probe",
                f"terms {a}, {b}, {c} as 1 + 2^-k - 1: 2^-{accumulator.fraction_bits} survives"
                + (", nothing smaller was asked" if accumulator.survives_all else ", less does not")
                + (f"; rounding {accumulator.mode}" if accumulator.mode else ""),
            )
        )
    if search.product:
        evidence.append(
            Evidence(
                "probe",
                f"two products, {search.product.compared} outputs: "
                + (" or ".join(search.product.possible) or "no known way"),
            )
        )
    if search.bias:
        evidence.append(
            Evidence("probe", f"bias against the first term: {search.bias.kept:g} of {search.bias.units} units survive")
        )
    if search.recipe:
        evidence.append(
            Evidence(
                "replay",
                f"{round(search.matched * search.compared):,} of {search.compared:,} outputs on random data, bit for"
                f" bit; {search.tried} recipes tried",
            )
        )
    return evidence + search.evidence


def _summarize(found: _Findings, accumulator: str | None, uses: list[OrderUse]) -> str:
    """One sentence a person can repeat."""
    search = found.search
    if not search.recipe or search.matched == 0.0:
        reason = found.failure or "none that was tried reproduces any output"
        return f"No recipe: {reason}."
    share = f"{round(search.matched * search.compared):,} of {search.compared:,} outputs"
    if search.matched < 1.0:
        return f"The recipe reproduces {share} only: part of the arithmetic is not known."
    recipe = search.recipe
    if search.family and search.family.family not in ("direct", "unknown"):
        return f"Computed by {format_recipe(recipe).split()[0]}; replayed {share}."
    products = "fused multiply-adds" if recipe.product == "fused" else "products rounded before they are added"
    if recipe.fused.fraction_bits:
        products = f"multi-term additions that keep {recipe.fused.fraction_bits} bits"
    many = "one order" if len(uses) == 1 else f"{len(uses)} orders"
    return f"Sums in {accumulator}, {products}, {many} for all outputs; replayed {share}."
