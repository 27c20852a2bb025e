"""Checking a seal: the engine here asked what it was asked there, problem by problem."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from samebits.engines.registry.runner_text import refuse_text_of_file
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.errors import EngineFailure, SealError
from samebits.findings import Evidence
from samebits.machine import describe_machine
from samebits.networks.model_inputs import make_inputs
from samebits.networks.onnx_reading import read_onnx
from samebits.numbers.float_environment import default_float_environment
from samebits.problems.any_problem import parse_any_problem
from samebits.progress import Progress, ignore_progress
from samebits.questions.seal.seal_file import read_seal
from samebits.questions.seal.seal_schema import Check, CheckedOutput, CheckedUnit, Outcome, Seal, SealedUnit
from samebits.questions.seal.seal_sentences import say_different, say_same_for_all, say_tried, summarize_check
from samebits.questions.seal.sealing import fingerprint, list_variables, run_outputs, seal_problem
from samebits.version import VERSION


@default_float_environment()
def check(
    sealed: str | Path | Seal,
    on: str | None = None,
    *,
    model: str | Path | None = None,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Check:
    """Whether an engine here, or on another text (`on`), computes what a seal says, bit for bit.

    `sealed` is a seal or its file, `model` the sealed ONNX file, whose outputs are then compared too. Every problem is
    run on the seal's operands and probed: where the bits are the same and the recipe is the sealed one, they are the
    same for every input. Raises SealError for a file that is no seal, a model that is another one, or a file whose
    engine reaches code, programs or variables of its own (name it by `on`), ResourceLimitError for a problem that needs
    more memory than is free, and what `open_runner` raises; an engine that fails is a finding.

    >>> import samebits
    >>> sealed = samebits.seal("matmul x=3x8 w=8x4", "emulate:direct")
    >>> samebits.check(sealed, "emulate:direct acc=float16").units[0].outcome
    'different'
    """
    seal = sealed if isinstance(sealed, Seal) else read_seal(sealed)
    engine = on or seal.engine
    if on is None and not isinstance(sealed, Seal):
        refused = refuse_text_of_file(seal.engine, [], str(sealed))
        if refused:
            raise SealError(refused)
    outputs = list(_check_outputs(seal, engine, model, time_limit_s))
    units: list[CheckedUnit] = []
    with contextlib.closing(open_runner(engine, time_limit_s=time_limit_s)) as runner:
        identity: Identity | None = None
        for number, unit in enumerate(seal.units):
            progress(f"checking {unit.problem[:60]}", number / len(seal.units))
            units.append(_check_unit(runner, unit, seal.seed))
        with contextlib.suppress(EngineFailure):
            identity = runner.identify()
    bad = [*(u.outcome for u in units), *(o.outcome for o in outputs)]
    holds = False if "different" in bad else None if {"failed", "not-tried"} & set(bad) else True
    return Check(
        subject=seal.subject, sealed=seal.content, engine=engine, version=identity.version if identity else None,
        device=identity.device if identity else None, processor=describe_machine(), holds=holds, units=units,
        outputs=outputs, summary=summarize_check(engine, units, outputs, holds),
        evidence=[Evidence("setting", says) for says in _list_differences(seal, engine, identity)],
        samebits_version=VERSION,
    )  # fmt: skip


def _check_unit(runner: Runner, unit: SealedUnit, seed: int) -> CheckedUnit:
    try:
        here = seal_problem(runner, parse_any_problem(unit.problem), unit.used_by, seed)
    except EngineFailure as error:
        return CheckedUnit(problem=unit.problem, outcome="failed", says=str(error), used_by=unit.used_by)
    outcome: Outcome
    if here.digests != unit.digests:
        outcome, says = "different", say_different(unit.recipe, here.recipe)
    elif unit.is_whole and here.is_whole and here.recipe == unit.recipe:
        outcome, says = "same", say_same_for_all()
    elif unit.recipe is None or here.recipe is None:
        outcome, says = "same-tried", say_tried("no recipe was found")
    else:
        outcome, says = "same-tried", say_tried("the recipes do not reproduce everything, or are written otherwise")
    return CheckedUnit(
        problem=unit.problem, outcome=outcome, says=says, recipe=here.recipe, used_by=unit.used_by
    )  # fmt: skip


def _check_outputs(seal: Seal, engine: str, model: str | Path | None, time_limit_s: float) -> Iterator[CheckedOutput]:
    """The model's outputs on the seeded inputs; not tried without its file. Raises SealError for another model."""
    sealed = seal.model
    if sealed is None:
        if model is not None:
            raise SealError("this seal is of problems; it has no model")
        return
    if model is None:
        yield from (CheckedOutput(output.name, "not-tried") for output in sealed.outputs)
        return
    network = read_onnx(model, time_limit_s=time_limit_s)
    if fingerprint(str(model), network) != sealed.fingerprint:
        raise SealError(f"{model} is not the model that was sealed: its fingerprint is another one")
    sizes = {name: tuple(shape) for name, shape in sealed.sizes.items()}
    fed = make_inputs(network, seal.seed, sizes={n: s for n, s in sizes.items() if n in network.inputs})
    try:
        found = run_outputs(network, fed, engine, time_limit_s)
    except EngineFailure:
        found = {}
    for output in sealed.outputs:
        if output.name not in found:
            yield CheckedOutput(output.name, "failed")
        else:
            yield CheckedOutput(output.name, "same-tried" if found[output.name] == output.digest else "different")


def _list_differences(seal: Seal, engine: str, identity: Identity | None) -> Iterator[str]:
    """What is otherwise here than where the seal was made."""
    here = {"engine": engine, "processor": describe_machine()}
    there = {"engine": seal.engine, "processor": seal.processor}
    if identity is not None:
        here |= {"version": identity.version, "device": identity.device, **identity.settings}
        there |= {"version": seal.version, "device": seal.device, **seal.settings}
    here |= {f"variable {name}": value for name, value in list_variables(engine).items()}
    there |= {f"variable {name}": value for name, value in seal.variables.items()}
    for name in dict.fromkeys([*there, *here]):
        if here.get(name) != there.get(name):
            yield f"{name}: {there.get(name, 'not set')} where it was sealed, {here.get(name, 'not set')} here"
