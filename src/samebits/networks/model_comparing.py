"""Comparing engines on a whole network: which unit deviates by itself, what it inherits, and what comes of it."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.runner import Runner
from samebits.engines.runner.guarded_runner import list_runners
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import ArgumentError, EngineFailure, ProblemTextError
from samebits.findings import Evidence, Failure, Verdict, is_agreement
from samebits.findings.causes import CauseCode
from samebits.findings.model_schema import ModelComparison
from samebits.findings.settings_advice import advise
from samebits.judging.comparing_cost import check_memory
from samebits.judging.fixes import AskedSide, FixSearch
from samebits.judging.judging_sentences import say_wrong_on_integers
from samebits.judging.references import make_reference
from samebits.judging.side_running import judge_ran, run_on_both
from samebits.networks.bound_sizes import bind_sizes
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.conversions import Conversion, find_conversion, list_odd_weights
from samebits.networks.file_differences import (
    FileDifference,
    blame_conversion,
    blame_file,
    list_file_differences,
    list_sentences,
    open_other,
)
from samebits.networks.integer_problems import make_integer_network
from samebits.networks.matched_files import take_other
from samebits.networks.model_conclusion import Asked, Outcome, conclude
from samebits.networks.model_fixes import ModelTrials, digest_outputs
from samebits.networks.model_fixes import save_cases as write_cases
from samebits.networks.model_inputs import check_inputs, load_inputs, make_inputs
from samebits.networks.model_judging import JudgedUnit, ModelJudge, measure_relative
from samebits.networks.model_runners import (
    ModelRunner,
    OtherFileRunner,
    find_problem_runner,
    open_model_runner,
)
from samebits.networks.model_sentences import (
    say_files_differ,
    say_first_verdict,
    say_nothing_saved,
    say_odd_weights,
    say_out_of_time,
    say_share,
    say_unknown_values,
)
from samebits.networks.model_subject import is_lite, is_module
from samebits.networks.module_export import export_module, read_lite
from samebits.networks.network import Network, Program
from samebits.networks.network_replay import replay_side
from samebits.networks.observing import Observer, divide_observably
from samebits.networks.onnx_reading import count_bytes, make_network, read_onnx
from samebits.networks.program_meaning import settle_meaning
from samebits.networks.recorded_runs import RecordedRunner, take_recorded
from samebits.networks.units import fold_constants
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import FORMATS
from samebits.problems import Problem, parse_problem_text
from samebits.problems.integer_problem import is_integer_problem
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact
from samebits.progress import Announcement, Progress, ignore_progress, prefix_progress
from samebits.regular_files import open_folder


def try_exact_integers(
    runners: Mapping[str, Runner], judged: Iterable[JudgedUnit], progress: Progress
) -> dict[str, tuple[int, int]]:
    """Runs every distinct product of the units on exact integers, in each engine alone: how many were right, of all.

    A unit whose product is wrong there is `wrong` on this side, whatever it was fed in the network. Problems that an
    engine does not take by themselves are not counted.
    """
    by_problem: dict[str, list[JudgedUnit]] = {}
    for unit in judged:
        if unit.problem is not None and any(side in unit.sides for side in runners):
            by_problem.setdefault(unit.problem, []).append(unit)
    counts: dict[str, tuple[int, int]] = dict.fromkeys(runners, (0, 0))
    for number, (text, units) in enumerate(by_problem.items()):
        progress("exact integers", number / len(by_problem))
        try:
            task = _ExactTask(parse_problem_text(text))
        except ProblemTextError:
            continue
        for side, runner in runners.items():
            own = [unit for unit in units if side in unit.sides]
            if not own:
                continue
            try:
                wrong = task.find_fault(runner)
            except EngineFailure:  # It is not counted.
                continue
            right, tried = counts[side]
            counts[side] = (right + (wrong is None), tried + 1)
            if wrong is not None:
                _mark_wrong_alone(own, side, wrong)
    return counts


def _mark_wrong_alone(units: Iterable[JudgedUnit], side: str, wrong: Evidence) -> None:
    for unit in units:
        own = unit.sides[side]
        evidence = (*own.evidence, wrong)
        unit.sides[side] = replace(own, verdict="wrong", certainty="bounds", is_wrong_alone=True, evidence=evidence)


class _ExactTask:
    """A product on exact integers, with what is right; the same for all engines."""

    def __init__(self, problem: Problem):
        check_memory(problem, 3)
        self.lowering = lower_problem(problem)
        self.operands = make_exact(self.lowering.convolution, 0)
        self.reference = make_reference(self.lowering.convolution, self.operands, ignore_progress, rounds=False)

    def find_fault(self, runner: Runner) -> Evidence | None:
        """What is wrong on exact integers; None where all is right. Raises EngineFailure where there is no result."""
        own = lower_runner(runner, self.lowering)
        ran = run_on_both(own, self.lowering.convolution, self.operands, self.operands)
        if ran.on_exact is None:
            raise EngineFailure(ran.recorded.failure.says if ran.recorded.failure else "no result")
        side = judge_ran(self.reference, self.reference, ran)
        assert side.exact_data is not None
        if side.verdict != "wrong":
            # A transform may differ by what rounding makes.
            return None
        return Evidence("structure", say_wrong_on_integers(side.exact_data))


# Networks whose values take more than this are announced beforehand.
_ANNOUNCED_BYTES = 2**30


@default_float_environment()
def compare_model(
    model: str | Path | Network,
    on: Sequence[str | ModelRunner | Runner],
    *,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    time_limit_s: float = 300.0,
    attributes: bool = True,
    fix: bool = False,
    calls: int | None = None,
    replay: bool = False,
    save_cases: str | Path | None = None,
    against: str | Path | Network | None = None,
    recorded: Mapping[str, Mapping[str, np.ndarray]] | None = None,
    progress: Progress = ignore_progress,
) -> ModelComparison:
    """Runs a network on every engine in `on` and judges each unit of it against the truth on what it was really fed.

    `model` is an ONNX file (or what `read_onnx` made of one), an exported program (.pt2), `file.py:function`, which
    returns a torch module and its inputs, or the text of a problem on integers (`integer_problems`). Inputs are arrays
    by name, an .npz of them, or random ones (`seed`, `ranges`; `sizes` gives those that the network leaves open, by its
    own name for one or as whole shapes by input).
    An `If` is replaced by the branch that these inputs take, a loop by its rounds. Engines that read ONNX run the
    network whole; all others compute its convolutions and products one at a time. Values between units are observed
    only as far as that leaves every bit of the result as it is. With `fix` settings are tried until the sides agree,
    with `replay` the recipe of every unit is looked for and executed on what it was fed, with `save_cases` the units
    that deviate are written to that folder as case files. Every engine runs the network `calls` times, at least twice,
    to see whether its bits repeat. An engine has `time_limit_s` for each of its runs; that long
    after the beginning, no further causes are looked for. `against` is another ONNX file of the network, which becomes
    a side of its own: what a converter made of the whole file is named in one sentence. `recorded` are runs elsewhere
    on the same inputs: by side, the outputs by name and as many values in between as were kept; what was not kept joins
    units on that side. Raises SamebitsError for a
    model, inputs or a runner's text that cannot be dealt with.
    """
    on = list_runners(on)
    codes = is_integer_problem(model)
    if codes:
        model, own = make_integer_network(str(model), seed)
        ranges = ranges or own
    began = time.monotonic()
    with contextlib.ExitStack() as opened:
        network, examples, notes = _take_model(model, opened, time_limit_s, progress)
        inputs = _choose_inputs(inputs, examples, ranges, recorded)
        fed = _take_inputs(network, inputs, ranges, sizes, seed)
        network = settle_control_flow(network, fed, make_network)
        asked = _open_all(on, opened, time_limit_s, network.program, codes=codes)
        asked += _take_recorded(network, recorded or {}, {a.name for a in asked})
        other = _take_other(network, against, fed)
        if other is not None:
            asked.append(open_other(network, other, on, opened, time_limit_s))
        conversion = None if other is None else find_conversion(network, other)
        known = [asked[-1].name] if conversion and save_cases is None else []
        outcome = judge_network(network, fed, asked, progress, keeps=save_cases is not None, known=known, calls=calls)
        said = [*notes, *network.notes, *_list_unknown(network, asked)]
        if attributes:
            said += _explain(outcome, progress, began + time_limit_s)
        settle_meaning(outcome)
        if attributes:
            _find_shares(outcome)
        if replay:
            _replay_sides(outcome, progress)
        differences = None if other is None else _blame_other(outcome, other, conversion, fed, progress)
        drawn = "uniform in ranges" if ranges else "normal"
        found = conclude(outcome, "given" if inputs is not None else f"{drawn}, seed {seed}")
        said += [] if differences is None else list_sentences(differences)
        found = msgspec.structs.replace(found, evidence=[Evidence("structure", s) for s in said])
        found = _add_differences(found, differences or [])
        found = _advise_recorded(found)
        if save_cases is not None:
            found = _save(found, write_cases(save_cases, outcome.judged))
        if fix:
            others = make_inputs(network, seed + 1, ranges, sizes) if inputs is None else _disturb(fed)
            place = ModelTrials(network, fed, others, _judge_alone, time_limit_s)
            found = _add_fixes(found, outcome, on, place, progress)
        return found


def _choose_inputs(
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    examples: Mapping[str, np.ndarray] | None,
    ranges: Mapping[str, tuple[float, float]] | None,
    recorded: Mapping[str, Mapping[str, np.ndarray]] | None,
) -> str | Path | Mapping[str, np.ndarray] | None:
    """The inputs that were given, or those of the module; raises ArgumentError where a recorded run has none."""
    if inputs is None and examples is not None and not ranges:
        return examples
    if recorded and inputs is None and examples is None:
        raise ArgumentError("what was recorded belongs to the inputs of that run: give them, too (--inputs)")
    return inputs


def _take_other(
    network: Network, against: str | Path | Network | None, fed: Mapping[str, np.ndarray]
) -> Network | None:
    """The other file, its values named as the network's; None where there is none."""
    if against is None:
        return None
    shapes = {name: array.shape for name, array in fed.items()}
    return settle_control_flow(take_other(network, against, shapes), fed, make_network)


def _take_recorded(
    network: Network, recorded: Mapping[str, Mapping[str, np.ndarray]], taken: set[str]
) -> Iterator[Asked]:
    """A side for each run elsewhere; raises ArgumentError for one that has an engine's name."""
    for side, values in recorded.items():
        if side in taken:
            raise ArgumentError(f"two sides are called {side!r}; name the recorded one otherwise")
        yield Asked(side, take_recorded(network, side, values))


def _list_unknown(network: Network, asked: Sequence[Asked]) -> Iterator[str]:
    """What recorded sides have that the network has not, in sentences."""
    for one in asked:
        if isinstance(one.runner, RecordedRunner) and one.runner.unknown:
            yield say_unknown_values(one.name, one.runner.unknown, list(network.producers))


def _add_differences(found: ModelComparison, differences: Sequence[FileDifference]) -> ModelComparison:
    """Says what the second file says otherwise, where no side deviates by it: on other inputs one may."""
    other = [d for d in differences if not d.is_rewriting and d.node]
    if not other or not is_agreement(found.verdict):
        return found
    first, *more = list_sentences(other)
    says = say_files_differ(first, len(more))
    kept = [Evidence("file", says), *found.evidence]
    return msgspec.structs.replace(found, summary=f"{found.summary} {says}", evidence=kept)


def _save(found: ModelComparison, saved: list[str]) -> ModelComparison:
    """With the cases that were written, or why there are none."""
    nothing = [] if saved or is_agreement(found.verdict) else [Evidence("structure", say_nothing_saved())]
    return msgspec.structs.replace(found, saved=saved, evidence=[*found.evidence, *nothing])


def _take_model(
    model: str | Path | Network, opened: contextlib.ExitStack, time_limit_s: float, progress: Progress
) -> tuple[Network, Mapping[str, np.ndarray] | None, tuple[str, ...]]:
    """The network, example inputs where it came with some, and what its exporter has to say."""
    if isinstance(model, Network):
        return model, None, ()
    if is_lite(str(model)):
        folder = opened.enter_context(open_folder())
        return read_lite(str(model), folder, time_limit_s=time_limit_s), None, ()
    if not is_module(str(model)):
        network = read_onnx(model, time_limit_s=time_limit_s)
        size = sum(count_bytes(type_) for type_ in network.types.values())
        if size > _ANNOUNCED_BYTES:
            progress(Announcement(f"{model}: its values come to {size / 2**30:.1f} GiB for each side"), 0.0)
        return network, None, ()
    progress(f"exporting {str(model)[:60]}", 0.0)
    exported = export_module(str(model), opened.enter_context(open_folder()), time_limit_s=time_limit_s)
    return exported.network, exported.inputs, exported.notes


def _blame_other(
    outcome: Outcome,
    other: Network,
    conversion: Conversion | None,
    fed: Mapping[str, np.ndarray],
    progress: Progress,
) -> list[FileDifference]:
    """Makes what the other file says otherwise the cause where its side deviates; the differences of both files."""
    if conversion is None:
        shapes = {name: array.shape for name, array in fed.items()}
        first, second = (bind_sizes(one, shapes) for one in (outcome.network, other))
        differences = list_file_differences(first, second)
        deviates = outcome.list_deviating(outcome.asked[-1].name)
        asks = deviates and any(d.is_rounding for d in differences)
        blame_file(outcome, differences, _judge_other(outcome, other, fed, progress) if asks else None)
        return differences
    odd = list_odd_weights(outcome.network, other)
    if outcome.list_deviating(outcome.asked[-1].name):
        blame_conversion(outcome, other, conversion, _judge_other(outcome, other, fed, progress), odd)
    said = [FileDifference("", conversion.cause, f"the other file {conversion.says}")]
    return said + [FileDifference(name, CauseCode.OTHER_OPERANDS, say_odd_weights()) for name in odd]


def _judge_other(
    outcome: Outcome, other: Network, fed: Mapping[str, np.ndarray], progress: Progress
) -> list[str] | None:
    """The units of the other file in which the engine does not compute what that file says; None if not known."""
    runner = outcome.asked[-1].runner
    assert isinstance(runner, OtherFileRunner)
    side = Asked(runner.runner.text, runner.runner)
    heard = prefix_progress(progress, "the other file by itself: ")
    own = judge_network(other, runner.take_inputs(fed), [side], heard)
    beyond = [unit.unit.name for unit in own.list_deviating(side.name)]
    is_known = side.observer is not None and all(u.is_judged for u in own.judged)
    return beyond if beyond or is_known else None


def _explain(outcome: Outcome, progress: Progress, ends_at: float) -> list[str]:
    """Looks for the causes of what deviates, in the time there is; first says what is known without. What was left."""
    judge = outcome.judge
    left = 0
    if judge is not None:
        if judge.list_due(outcome.judged):
            first = conclude(outcome, "")
            progress(Announcement(say_first_verdict(first.verdict, first.summary)), 1.0)
        left = judge.find_causes(outcome.judged, ends_at)
    _try_exact(outcome, progress)
    return [say_out_of_time(left)] if left else []


def _try_exact(outcome: Outcome, progress: Progress) -> None:
    alone = {s.name: find_problem_runner(s.runner) for s in outcome.asked if s.observer is not None}
    runners = {name: runner for name, runner in alone.items() if runner is not None}
    counts = try_exact_integers(runners, outcome.judged, progress)
    for side in outcome.asked:
        side.exact = counts.get(side.name, side.exact)


def _replay_sides(outcome: Outcome, progress: Progress) -> None:
    for side in outcome.asked:
        if outcome.judge is not None and side.observer is not None:
            side.replayed = replay_side(outcome.judge, outcome.judged, side.name, side.observer, progress)


def _add_fixes(
    found: ModelComparison,
    outcome: Outcome,
    on: Sequence[str | ModelRunner | Runner],
    place: ModelTrials,
    progress: Progress,
) -> ModelComparison:
    verdicts = {s.name: s for s in found.sides}
    sides = [
        AskedSide(
            a.name,
            text if isinstance(text, str) else None,
            digest_outputs(a.observer.plain),
            verdicts[a.name].verdict,
            verdicts[a.name].cause,
        )
        for a, text in itertools.zip_longest(outcome.asked, on)
        if a.observer is not None
    ]
    fixes, evidence = FixSearch(place, sides, progress).run()
    return msgspec.structs.replace(found, fixes=[*fixes, *found.fixes], evidence=[*found.evidence, *evidence])


def _advise_recorded(found: ModelComparison) -> ModelComparison:
    """With settings that end what recorded sides deviate by, by what others say: nothing can be tried there."""
    sides = [s for s in found.sides if s.engine is None and s.cause is not None and not is_agreement(s.verdict)]
    if not sides:
        return found
    told = [u for unit in found.units for u in unit.sides if u.name in {s.name for s in sides} and u.says]
    names, says = [s.name for s in sides], " ".join(u.says or "" for u in told)
    advice = advise([s.cause for s in sides if s.cause], names=names, says=says)
    return msgspec.structs.replace(found, fixes=advice)


def _disturb(fed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Other inputs like the given ones: items and values in another sequence."""
    rng = np.random.default_rng(1)
    return {name: rng.permutation(array.reshape(-1)).reshape(array.shape) for name, array in fed.items()}


def _judge_alone(observer: Observer) -> Verdict:
    """The verdict on one side by itself, of a run that has begun."""
    side = Asked(observer.runner.text, observer.runner, observer)
    outcome = _judge_observed(observer.network, [side], ignore_progress)
    if outcome.judge is not None:
        outcome.judge.find_causes(outcome.judged)
    settle_meaning(outcome)
    return conclude(outcome, "").verdict


def _take_inputs(
    network: Network,
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    ranges: Mapping[str, tuple[float, float]] | None,
    sizes: Mapping[str, tuple[int, ...]] | None,
    seed: int,
) -> dict[str, np.ndarray]:
    if inputs is None:
        return make_inputs(network, seed, ranges, sizes)
    if sizes:
        raise ArgumentError(
            "the inputs that are given have sizes: give others (a module's function returns them) instead"
        )
    return load_inputs(network, inputs) if isinstance(inputs, (str, Path)) else check_inputs(network, inputs)


def _open_all(
    on: Sequence[str | ModelRunner | Runner],
    opened: contextlib.ExitStack,
    time_limit_s: float,
    program: Program | None,
    *,
    codes: bool,
) -> list[Asked]:
    asked: list[Asked] = []
    for one in on:
        runner = open_model_runner(one, time_limit_s=time_limit_s, program=program, codes=codes)
        if isinstance(one, str):
            opened.callback(runner.close)
        count = sum(1 for a in asked if a.runner.text == runner.text)
        asked.append(Asked(f"{runner.text} #{count + 1}" if count else runner.text, runner))
    return asked


def judge_network(
    network: Network,
    inputs: Mapping[str, np.ndarray],
    asked: list[Asked],
    progress: Progress,
    *,
    keeps: bool = False,
    known: Sequence[str] = (),
    calls: int | None = None,
) -> Outcome:
    """Runs all sides and judges all units; a side that fails keeps its failure. Causes are not looked for yet.

    Every side runs the network `calls` times, at least twice, to see whether its bits repeat. `keeps` holds on to
    deviating cases; `known` are sides of which no causes are to be looked for.
    """
    for i, side in enumerate(asked):
        progress(f"running {side.name[:60]}", i / len(asked))
        observer = Observer(side.runner, network, inputs, max(calls or 0, 2))
        try:
            side.identity = side.runner.identify()
            observer.begin()
        except EngineFailure as error:
            # Failure lists the kinds that EngineFailure and its classes declare as plain text.
            side.failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
            continue
        side.observer = observer
    return _judge_observed(network, asked, progress, keeps=keeps, known=known)


def _judge_observed(
    network: Network, asked: list[Asked], progress: Progress, *, keeps: bool = False, known: Sequence[str] = ()
) -> Outcome:
    ran = [a for a in asked if a.observer]
    observers = {a.name: a.observer for a in ran if a.observer}
    if not observers:
        return Outcome(network, asked, [])
    folded = fold_constants(network)
    units = divide_observably(network, folded, observers, progress)
    judge = ModelJudge(network, folded, units, observers, progress, keeps, known)
    return Outcome(network, asked, list(judge.judge()), judge)


def _find_shares(outcome: Outcome) -> None:
    """Adds to a side's first deviating unit how much of the outputs' difference is gone if it returns the truth."""
    ran = [a for a in outcome.asked if a.observer]
    for side in ran:
        deviating = outcome.list_deviating(side.name)
        other = next((a for a in ran if a is not side and not outcome.list_deviating(a.name)), None)
        if not deviating or other is None or side.observer is None or other.observer is None:
            continue
        unit = deviating[0]
        truths = {
            v: t.astype(side.observer.plain[v].dtype if v in side.observer.plain else t.dtype)
            for v, t in unit.references.get(side.name, {}).items()
            if t.size and v not in outcome.network.outputs
        }
        before = _measure_apart(side.observer.plain, other.observer.plain)
        if not before or set(truths) != set(unit.unit.outputs):
            share = 1.0 if before and set(unit.unit.outputs) & set(outcome.network.outputs) else None
        else:
            try:
                swapped = side.observer.run_with([], outcome.network.outputs, truths)
            except EngineFailure:
                continue
            share = 1.0 - _measure_apart(swapped, other.observer.plain) / before
        if share is not None:
            judged = unit.sides[side.name]
            said = Evidence("statistic", say_share(share))
            unit.sides[side.name] = replace(judged, share=share, evidence=(*judged.evidence, said))


def _measure_apart(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> float:
    pairs = [(a[n], b[n]) for n in a if a[n].shape == b[n].shape and a[n].dtype.name in FORMATS]
    return max((measure_relative(y, x) for x, y in pairs), default=0.0)
