"""Comparing engines on a whole network: which unit deviates by itself, what it inherits, and what comes of it."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.runner import Runner
from samebits.engines.runner.guarded_runner import list_runners
from samebits.errors import ArgumentError, EngineFailure
from samebits.findings import Evidence, Verdict, is_agreement
from samebits.findings.model_schema import ModelComparison
from samebits.findings.settings_advice import advise
from samebits.judging.fixes import AskedSide, FixSearch
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.exact_products import try_exact_integers
from samebits.networks.file_differences import (
    FileDifference,
    list_sentences,
)
from samebits.networks.integer_problems import make_integer_network
from samebits.networks.model_conclusion import Asked, Outcome, conclude
from samebits.networks.model_fixes import ModelTrials, digest_outputs
from samebits.networks.model_fixes import save_cases as write_cases
from samebits.networks.model_inputs import check_inputs, load_inputs, make_inputs
from samebits.networks.model_runners import (
    ModelRunner,
    find_problem_runner,
    open_model_runner,
)
from samebits.networks.model_sentences import (
    say_files_differ,
    say_nothing_saved,
    say_out_of_time,
    say_share,
    say_unknown_values,
)
from samebits.networks.model_subject import is_lite, is_module
from samebits.networks.module_export import export_module, read_lite
from samebits.networks.network import Network, Program
from samebits.networks.network_judging import judge_network, judge_observed
from samebits.networks.network_replay import replay_side
from samebits.networks.observing import Observer
from samebits.networks.onnx_reading import count_bytes, make_network, read_onnx
from samebits.networks.other_file import OtherFile
from samebits.networks.program_meaning import settle_meaning
from samebits.networks.recorded_runs import RecordedRunner, take_recorded
from samebits.networks.rewritten_parts import measure_apart
from samebits.numbers.float_environment import default_float_environment
from samebits.problems.integer_problem import is_integer_problem
from samebits.progress import Announcement, FirstVerdict, Progress, ignore_progress
from samebits.regular_files import open_folder

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
        other = None if against is None else OtherFile(network, against, fed)
        if other is not None:
            asked.append(other.open(on, opened, time_limit_s))
        known = [asked[-1].name] if other and other.conversion and save_cases is None else []
        outcome = judge_network(network, fed, asked, progress, keeps=save_cases is not None, known=known, calls=calls)
        if other is not None:
            outcome = other.join(outcome, progress)
        said = [*notes, *network.notes, *_list_unknown(network, asked)]
        if attributes:
            said += _explain(outcome, progress, began + time_limit_s)
        settle_meaning(outcome)
        if attributes:
            _find_shares(outcome)
        if replay:
            _replay_sides(outcome, progress)
        differences = [] if other is None else other.blame(outcome, progress)
        drawn = "uniform in ranges" if ranges else "normal"
        found = conclude(outcome, "given" if inputs is not None else f"{drawn}, seed {seed}")
        said += [] if other is None else other.list_sentences(differences)
        found = msgspec.structs.replace(found, evidence=[Evidence("structure", s) for s in said])
        found = _add_differences(found, differences)
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
    other = [d for d in differences if not d.is_rewriting and not d.shows_always and d.node]
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


def _explain(outcome: Outcome, progress: Progress, ends_at: float) -> list[str]:
    """Looks for the causes of what deviates, in the time there is; first says what is known without. What was left."""
    judge = outcome.judge
    left = 0
    if judge is not None:
        if judge.list_due(outcome.judged):
            first = conclude(outcome, "")
            progress(FirstVerdict.of(first.verdict, first.summary, "Causes are being looked for."), 1.0)
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
    outcome = judge_observed(observer.network, [side], ignore_progress)
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
        before = measure_apart(side.observer.plain, other.observer.plain)
        if not before or set(truths) != set(unit.unit.outputs):
            share = 1.0 if before and set(unit.unit.outputs) & set(outcome.network.outputs) else None
        else:
            try:
                swapped = side.observer.run_with([], outcome.network.outputs, truths)
            except EngineFailure:
                continue
            share = 1.0 - measure_apart(swapped, other.observer.plain) / before
        if share is not None:
            judged = unit.sides[side.name]
            said = Evidence("statistic", say_share(share, len(deviating) - 1))
            unit.sides[side.name] = replace(judged, share=share, evidence=(*judged.evidence, said))
