"""Sealing: how an engine computes problems, or what a model consists of, written down with bits and recipes."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.recipe_search.replaying import Replayer, score_all
from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Runner, check_result
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import ArgumentError, EngineUnsupported, ProbeStopped, SamebitsError, SealError
from samebits.findings import Replay
from samebits.judging.comparing_cost import check_memory
from samebits.machine import describe_machine
from samebits.networks.library_operators import has_means
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_runners import find_data_files, is_onnx_engine, open_model_runner
from samebits.networks.model_subject import is_model, is_module
from samebits.networks.network import Network
from samebits.networks.network_steps import digest_nodes, find_steps, run_steps, settle
from samebits.networks.onnx_reading import read_onnx
from samebits.networks.unit_steps import measure_same
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.ulps import digest_bits
from samebits.problems import Problem
from samebits.problems.any_problem import (
    AnyProblem,
    format_any_problem,
    is_formula,
    make_formula_operands,
    parse_formula,
)
from samebits.problems.attention import Attention
from samebits.problems.languages.any_language import read_problem
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact, make_normal
from samebits.problems.row_functions import RowFunction
from samebits.progress import Progress, ignore_progress
from samebits.questions.pick.subject_problems import list_problems
from samebits.questions.seal.seal_file import digest_seal, write_seal
from samebits.questions.seal.seal_schema import Seal, SealedModel, SealedOutput, SealedStep, SealedUnit
from samebits.questions.seal.seal_sentences import summarize_seal
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.recipe_text import format_recipe
from samebits.sums.truth.attention import check_scores_fit
from samebits.sums.truth.row_functions import check_rows_fit
from samebits.version import VERSION

_MOST_CALLS, _MOST_TIME_S = 1000, 20.0
# So many sets of inputs show how a model's units are computed.
_SETS = 4


@default_float_environment()
def seal(
    subject: str | Path | Sequence[str],
    on: str,
    *,
    output: str | Path | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Seal:
    """Writes down how an engine computes, so that `check` can say elsewhere whether every bit will be the same.

    `subject` is a problem's text (attention too), several of them, or an ONNX file, whose products are sealed one by
    one and whose outputs are sealed on seeded inputs; `on` is an engine's text. Of each problem the bits on seeded
    operands are kept and, where probing finds the recipe and replaying it gives every output, the recipe: it says the
    bits for every input. With `output` the seal is written to that file. Raises SamebitsError for a subject or an
    engine that cannot be dealt with, and for an engine that fails.

    >>> import samebits
    >>> sealed = samebits.seal("matmul x=3x8 w=8x4", "numpy", output="net.seal")
    >>> samebits.check("net.seal").holds
    True
    """
    texts = [str(subject)] if isinstance(subject, (str, Path)) else [str(one) for one in subject]
    if not texts or not isinstance(on, str):
        raise ArgumentError("a seal is of problems or one model, and of one engine's text")
    models = [text for text in texts if is_model(text)]
    if models and len(texts) > 1:
        raise ArgumentError("one model at a time, or problems")
    if models and is_module(models[0]):
        raise ArgumentError("a seal is of an ONNX file or of problems; export the module first")
    problems, left_out = _list_sealed_problems(texts, sizes, time_limit_s, progress)
    with contextlib.closing(open_runner(on, time_limit_s=time_limit_s)) as runner:
        identity = runner.identify()
        units: list[SealedUnit] = []
        for number, (problem, nodes) in enumerate(problems.items()):
            progress(f"sealing {format_any_problem(problem)[:60]}", number / len(problems))
            try:
                units.append(seal_problem(runner, problem, nodes, seed))
            except EngineUnsupported as error:
                if not models:
                    raise
                left_out.append(f"{', '.join(nodes)[:60]}: {error}")
    model = None
    if models:
        progress(f"running {models[0][:60]}", 1.0)
        model = _seal_model(models[0], on, sizes, seed, time_limit_s, left_out, progress)
    if not units:
        raise SealError(f"{on} computes none of these problems: {left_out[0] if left_out else 'there are none'}")
    found = Seal(
        subject="; ".join(texts), engine=on, version=identity.version, device=identity.device,
        settings=identity.settings, variables=list_variables(on), processor=describe_machine(), seed=seed, units=units,
        model=model, summary=summarize_seal(on, units, model), samebits_version=VERSION,
    )  # fmt: skip
    found = msgspec.structs.replace(found, content=digest_seal(found))
    if output is not None:
        write_seal(output, found)
    return found


def list_variables(on: str) -> dict[str, str]:
    """Environment variables that the engine heeds and that are set, those of its own text included."""
    runner = parse_runner_text(on)
    known = ENGINES[runner.name].load_class().variables if runner.name in ENGINES else {}
    return {name: os.environ[name] for name in sorted(known) if name in os.environ} | dict(runner.environment)


def _list_sealed_problems(
    texts: Sequence[str], sizes: Mapping[str, tuple[int, ...]] | None, time_limit_s: float, progress: Progress
) -> tuple[dict[AnyProblem, list[str]], list[str]]:
    """The problems of texts or of a model, each once, with the nodes that have them; and what is left out."""
    if is_model(texts[0]):
        of_model, left_out = list_problems(
            texts[0], gradients=False, time_limit_s=time_limit_s, progress=progress, sizes=sizes
        )
        found: dict[AnyProblem, list[str]] = dict(of_model.items())
        return found, left_out
    return {parse_formula(text) if is_formula(text) else read_problem(text): [] for text in texts}, []


def seal_problem(runner: Runner, problem: AnyProblem, nodes: Sequence[str], seed: int) -> SealedUnit:
    """One problem: its bits on integers and on random operands, and its recipe with what it reproduced of these.

    Raises an EngineFailure where the engine has no result, ResourceLimitError where the problem does not fit in memory.
    """
    if isinstance(problem, Attention):
        check_scores_fit(problem)
    elif isinstance(problem, RowFunction):
        check_rows_fit(problem)
    else:
        check_memory(lower_problem(problem).convolution, 2)
    asked = lower_runner(runner, lower_problem(problem)) if isinstance(problem, Problem) else runner
    ran = [
        (own, operands, check_result(own, asked.run(own, operands))) for own, operands in draw_operands(problem, seed)
    ]
    digests = [digest_bits(result) for _, _, result in ran]
    recipe, replay = _find_recipe(asked, ran)
    return SealedUnit(
        problem=format_any_problem(problem), digests=digests, recipe=format_recipe(recipe) if recipe else None,
        replay=replay, used_by=list(nodes),
    )  # fmt: skip


def _find_recipe(
    runner: Runner, ran: Sequence[tuple[AnyProblem, Mapping[str, np.ndarray], np.ndarray]]
) -> tuple[Recipe | None, Replay | None]:
    """The recipe by which a runner computed these results, and how much of them it reproduces."""
    problem = ran[0][0]
    if not isinstance(problem, Problem):
        return None, None
    recipe = None
    with contextlib.suppress(ProbeStopped):
        session = ProbeSession(runner, problem, most_calls=_MOST_CALLS, most_time_s=_MOST_TIME_S)
        recipe = search_recipe(session).recipe
    if recipe is None:
        return None, None
    return recipe, Replay(*score_all([Replayer(problem, operands, result) for _, operands, result in ran], recipe))


def draw_operands(problem: AnyProblem, seed: int) -> Iterator[tuple[AnyProblem, dict[str, np.ndarray]]]:
    """The seeded operands, of a product those of the convolution that is computed for it: integers, and random ones."""
    if not isinstance(problem, Problem):
        made = (make_formula_operands(problem, drawn, seed) for drawn in ("exact", "normal"))
        yield from ((problem, operands) for operands in made if operands is not None)
        return
    lowering = lower_problem(problem)
    for make in (make_normal, make_exact):
        yield lowering.convolution, lowering.lower_operands(make(problem, seed))


def _seal_model(
    path: str,
    on: str,
    sizes: Mapping[str, tuple[int, ...]] | None,
    seed: int,
    time_limit_s: float,
    left_out: Sequence[str],
    progress: Progress,
) -> SealedModel:
    """A model whole: what it holds, and the bits of its outputs on seeded inputs, where the engine runs ONNX.

    Of every unit, too, how it is computed, and how much of the outputs that gives on other inputs.
    """
    network = read_onnx(path, time_limit_s=time_limit_s)
    fed = make_inputs(network, seed, sizes=sizes)
    outputs = run_outputs(network, fed, on, time_limit_s)
    drawn = [fed, *(make_inputs(network, seed + i, sizes=sizes) for i in range(1, _SETS + 1))] if outputs else []
    steps, nodes, replays = _seal_steps(network, drawn, on, time_limit_s, progress) if outputs else ([], "", {})
    return SealedModel(
        name=Path(path).name,
        fingerprint=fingerprint(path, network),
        sizes={name: list(array.shape) for name, array in fed.items()},
        outputs=[SealedOutput(name, digest, replays.get(name)) for name, digest in outputs.items()],
        left_out=list(left_out),
        steps=steps,
        nodes=nodes,
    )


def _seal_steps(
    network: Network,
    drawn: Sequence[Mapping[str, np.ndarray]],
    on: str,
    time_limit_s: float,
    progress: Progress,
) -> tuple[list[SealedStep], str, dict[str, Replay]]:
    """How every unit is computed, as seen on all sets of inputs but the last.

    With the digest of the nodes, and by output how much of it the units together give on the last set. Nothing where
    the engine fails, or what it runs cannot be followed.
    """
    *seen, others = drawn
    try:
        network = settle(network, seen[0])
        with contextlib.closing(open_model_runner(on, time_limit_s=time_limit_s)) as runner:
            found = find_steps(network, seen, runner, progress)
            wanted = runner.run_network(network, others, [], list(network.outputs), {})
        made = run_steps(network, others, [(one.unit, one.step) for one in found], progress)
    except SamebitsError:
        return [], "", {}
    given = {name: np.asarray(array) for name, array in wanted.items()}
    replays = {name: Replay(measure_same({name: made[name]}, {name: a}), a.size) for name, a in given.items()}
    steps = [
        SealedStep(
            unit=one.unit.name,
            nodes=[next(v for v in network.nodes[p].outputs if v) for p in one.unit.places],
            outputs=list(one.unit.outputs),
            form=one.step.form,
            recipe=format_recipe(one.step.recipe) if one.step.recipe else None,
            functions=one.step.manner.functions,
            rescales=one.step.rescales,
            means=str(one.step.manner.means) if has_means(network.nodes[p] for p in one.unit.places) else "",
            replay=Replay(one.matched, one.elements),
            alternatives=one.alternatives,
            has_products=bool(one.unit.products),
        )
        for one in found
    ]
    return steps, digest_nodes(network), replays


def run_outputs(network: Network, fed: Mapping[str, np.ndarray], on: str, time_limit_s: float) -> dict[str, str]:
    """Digests of the outputs' bits; none where the engine runs no ONNX model. Raises an EngineFailure."""
    if not is_onnx_engine(on):
        return {}
    with contextlib.closing(open_model_runner(on, time_limit_s=time_limit_s)) as runner:
        found = runner.run_network(network, fed, [], list(network.outputs), {})
    return {name: digest_bits(np.asarray(found[name])) for name in network.outputs}


def fingerprint(path: str, network: Network) -> str:
    """The SHA-256 of a model's file and of those with its data."""
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    folder, names = find_data_files(network.stored)
    for name in names:
        with Path(folder, name).open("rb") as file:
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
