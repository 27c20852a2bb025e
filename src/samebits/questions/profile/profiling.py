"""The profile of an engine on a problem: its recipe searched, what changes its bits asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.engines.probes import invariances
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.recipe_search.replaying import Replayer
from samebits.engines.recipe_search.stages import SearchResult
from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner, check_result
from samebits.engines.runner.guarded_runner import guard_runner
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import ArgumentError, EngineFailure, ProbeStopped, ResourceLimitError
from samebits.findings import Replay
from samebits.judging.comparing_cost import announce_cost, check_memory
from samebits.judging.references import make_reference
from samebits.judging.side_running import judge_exact
from samebits.networks.model_runners import is_onnx_engine, open_model_runner
from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem, format_problem
from samebits.problems.case_file import Case, lower_case
from samebits.problems.integer_problem import is_integer_problem, parse_integer_problem
from samebits.problems.languages.any_language import read_subject
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact
from samebits.problems.terms import find_terms
from samebits.progress import Progress, ignore_progress
from samebits.questions.profile.integer_profiling import profile_integers
from samebits.questions.profile.profile_conclusion import InvarianceAnswers, Profiled, conclude_profile
from samebits.questions.profile.profile_schema import Profile

# What is asked where a person names no problem: large enough for the usual kernels, small enough to be quick.
USUAL_PROBLEM = "conv2d x=1x64x28x28 w=64x64x3x3 padding=1 bias dtype=float32"
# Settings whose effect on the bits is part of a profile: finding field -> engine setting, its other value.
_OTHER_SETTINGS = {"threads": ("threads", "1"), "layout": ("layout", "channels_last")}
# Asking about every term needs masks of this many terms, weights and outputs: a few GiB at most.
_MOST_TERMS, _MOST_WEIGHTS, _MOST_OUTPUTS = 2**22, 2**29, 2**29
_LONGEST_NAME = 60


@dataclass(frozen=True)
class _Settings:
    recipe_only: bool
    time_limit_s: float
    most_time_s: float
    progress: Progress


@default_float_environment()
def profile(
    engine: str | Runner,
    subject: str | Path | Problem | Case = USUAL_PROBLEM,
    *,
    recipe_only: bool = False,
    time_limit_s: float = 300.0,
    most_time_s: float = 60.0,
    progress: Progress = ignore_progress,
) -> Profile:
    """An engine's arithmetic on a problem, found by probing and proved by replay.

    `engine` is a text such as "torch:threads=1", opened and closed here, or an object with the Runner protocol, which
    stays open; `subject` a problem, its text or a case, whose operands are then replayed too. A runner that fails
    leaves a profile that says how far it came. `recipe_only` leaves out what changes the bits, which takes longest for
    small problems: each other setting is an engine of its own. `time_limit_s` holds for loading and for each call,
    `most_time_s` for all calls. Raises SamebitsError for a text that cannot be read or a problem too large for this
    machine. Of a problem on integers the profile says how codes are added and how sums are rescaled (engines that run
    ONNX only).

    >>> import samebits
    >>> found = samebits.profile("emulate:direct order=pairs:k", "matmul x=3x8 w=8x4", recipe_only=True)
    >>> found.recipe, found.replay.matched
    ('direct product=fused acc=float32 order=pairs:k', 1.0)
    """
    if is_integer_problem(subject):
        return _profile_integers(engine, str(subject), time_limit_s, progress)
    case = read_subject(subject)
    problem = case.problem if isinstance(case, Case) else case
    _check_size(problem)
    # The recipe is replayed on several sets of random operands.
    announce_cost(problem, 0, 4, progress)
    settings = _Settings(recipe_only, time_limit_s, most_time_s, progress)
    if not isinstance(engine, str):
        return _profile_runner(guard_runner(engine), None, case, settings)
    runner = open_runner(engine, time_limit_s=time_limit_s)
    try:
        return _profile_runner(runner, engine, case, settings)
    finally:
        runner.close()


def _profile_integers(engine: str | Runner, text: str, time_limit_s: float, progress: Progress) -> Profile:
    """How an engine that runs ONNX adds codes and rescales sums; raises ArgumentError for any other engine."""
    asked = parse_integer_problem(text)
    if not isinstance(engine, str) or not is_onnx_engine(engine, codes=True):
        raise ArgumentError(
            "problems on integers are profiled on engines that take them: onnxruntime, openvino, litert"
        )
    _check_size(asked.plain)
    check_memory(asked.plain, 2)
    runner = open_model_runner(engine, time_limit_s=time_limit_s, codes=True)
    try:
        return profile_integers(runner, asked, progress)
    finally:
        runner.close()


def _check_size(problem: Problem) -> None:
    """Raises ResourceLimitError where asking about every term would need more than a few GiB."""
    terms = find_terms(problem)
    weights, outputs = terms.groups * terms.rows * terms.count, math.prod(problem.out_shape)
    if terms.count > _MOST_TERMS or weights > _MOST_WEIGHTS or outputs > _MOST_OUTPUTS:
        raise ResourceLimitError(
            f"{format_problem(problem)} is too large to ask about every term; make batch or spatial size smaller"
        )


def _profile_runner(runner: Runner, text: str | None, case: Problem | Case, settings: _Settings) -> Profile:
    """Profiles a runner; `text` is that of an engine opened for this profile only, None for a caller's runner."""
    problem = case.problem if isinstance(case, Case) else case
    session = ProbeSession(runner, problem, most_time_s=settings.most_time_s, progress=settings.progress)
    known = Profiled()
    try:
        for part in _ask_recipe(session, lower_case(case) if isinstance(case, Case) else None):
            known = part
        if not known.search.chosen.is_whole:
            known = _ask_integers(known, session)
        if not settings.recipe_only and not known.computes_another:
            session.progress("asking what changes the bits", 0.8)
            for answers in _ask_invariances(session, runner, known.search, text, settings.time_limit_s):
                known = known.with_invariances(answers)
    except (EngineFailure, ProbeStopped) as error:
        known = known.fail(_say_failure(error))
    return conclude_profile(runner.text, session, known)


def _ask_recipe(session: ProbeSession, case: Case | None) -> Iterator[Profiled]:
    """What is known after each part: identity, recipe, replay of the case."""
    progress = session.progress
    progress(f"loading {session.runner.text[:_LONGEST_NAME]}", 0.0)
    identity: Identity = session.runner.identify()
    known = Profiled(identity)
    yield known
    search = search_recipe(session)
    known = known.with_search(search)
    yield known
    if search.stopped is not None:
        raise search.stopped
    if case is not None and search.recipe:
        progress("replaying the case", 0.5)
        replayer = Replayer(case.problem, case.operands, session.ask(dict(case.operands)))
        matched, compared, _ = replayer.score(search.recipe)
        yield known.with_case(Replay(matched, compared))


def _ask_integers(known: Profiled, session: ProbeSession) -> Profiled:
    """With what comes of exact integers, and whether rounding could not have made it; not where that needs too much."""
    problem = session.problem
    try:
        check_memory(problem, 2)
    except ResourceLimitError:
        return known
    operands = make_exact(problem)
    reference = make_reference(problem, operands, ignore_progress, rounds=False)
    return known.with_integers(*judge_exact(reference, check_result(problem, session.ask(operands))))


def _ask_invariances(
    session: ProbeSession, runner: Runner, search: SearchResult, text: str | None, time_limit_s: float
) -> Iterator[InvarianceAnswers]:
    """The answers after each question. A question that the runner fails at is noted; the others go on.

    Other shapes are asked of the runner itself, as the problem was stated.
    """
    problem, first = session.problem.stated or session.problem, search.replayers[0]
    questions = {
        "batch_size": invariances.is_invariant_to_batch_size,
        "batch_position": invariances.is_invariant_to_batch_position,
        "length": invariances.is_invariant_to_length,
        "channel_order": invariances.is_invariant_to_channel_order,
    }
    distinct = invariances.count_distinct_results(session.runner, session.problem, first.operands)
    answers = InvarianceAnswers({"repeat": distinct == 1}, distinct)
    yield answers
    if distinct != 1:
        # What differs by itself differs with everything else as well.
        return
    for name, question in questions.items():
        try:
            answers = answers.add(name, question(runner, problem))
        except EngineFailure as error:
            answers = answers.note("open", f"{name} could not be tried: {error}")
        yield answers
    for name in _OTHER_SETTINGS:
        answers = _ask_other_setting(answers, name, text, first, time_limit_s)
        yield answers


def _ask_other_setting(
    answers: InvarianceAnswers, name: str, text: str | None, first: Replayer, time_limit_s: float
) -> InvarianceAnswers:
    """Whether the same engine with the other value of a setting it has gives the same bits."""
    other = _find_other_text(text, name)
    if other is None:
        return answers
    changed = open_runner(other, time_limit_s=time_limit_s)
    try:
        lowered = lower_runner(changed, lower_problem(first.problem.stated or first.problem))
        same = invariances.is_same_on(lowered, first.problem, first.operands, first.result)
        return answers.add(name, same).note("probe", f"{name}: compared with {other}")
    except EngineFailure as error:
        return answers.note("open", f"{name} could not be tried: {error}")
    finally:
        changed.close()


def _find_other_text(text: str | None, name: str) -> str | None:
    """The same engine with the other value of a setting it has."""
    if text is None:
        return None
    runner = parse_runner_text(text)
    setting, other = _OTHER_SETTINGS[name]
    if runner.name not in ENGINES or setting not in ENGINES[runner.name].load_class().settings:
        return None
    settings = {k: v for k, v in runner.settings.items() if k != setting}
    if runner.settings.get(setting) != other:
        settings[setting] = other
    return format_runner_text(replace(runner, settings=settings))


def _say_failure(error: Exception) -> str:
    if isinstance(error, EngineFailure):
        return f"{error.kind}: {error}"
    return str(error)
