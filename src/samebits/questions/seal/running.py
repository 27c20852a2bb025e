"""The sealed arithmetic executed where the engine is absent, bit for bit, problem by problem or unit by unit."""

from __future__ import annotations

import contextlib
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samebits.errors import ArgumentError, ModelError, ProblemShapeError, RecipeError, SamebitsError, SealError
from samebits.judging.comparing_cost import check_memory
from samebits.networks.library_operators import read_manner
from samebits.networks.model_inputs import check_inputs, load_arrays, load_inputs, make_inputs
from samebits.networks.network import Network
from samebits.networks.network_steps import run_steps, settle
from samebits.networks.onnx_reading import read_onnx
from samebits.networks.unit_steps import Step
from samebits.networks.units import Unit, fold_constants, make_unit
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.ulps import digest_bits
from samebits.problems import Problem
from samebits.problems.any_problem import parse_any_problem
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import check_operands
from samebits.progress import Progress, ignore_progress
from samebits.questions.seal.seal_file import read_seal
from samebits.questions.seal.seal_schema import RanOutput, RanStep, Run, Seal, SealedModel, SealedStep, SealedUnit
from samebits.questions.seal.seal_sentences import say_step, summarize_run
from samebits.questions.seal.sealing import draw_operands, fingerprint
from samebits.regular_files import check_target
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe_text import parse_recipe
from samebits.version import VERSION

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class _Ran:
    """What executing a seal made: the outputs, which of them are exact, the steps, and whether sealed bits came out."""

    arrays: Arrays
    exact: Mapping[str, bool]
    steps: list[RanStep]
    holds: bool | None


@default_float_environment()
def run(
    sealed: str | Path | Seal,
    inputs: str | Path | Mapping[str, np.ndarray] | None = None,
    *,
    model: str | Path | None = None,
    output: str | Path | None = None,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Run:
    """Executes what a seal says without the engine: the bits that the engine gave where it was sealed.

    `inputs` are arrays by name or an .npz of them: of a sealed model what it takes (`model` is its file, which holds
    the weights), of sealed problems the operands of one of them. Without them the seal's own seeded inputs are used,
    and what comes out is compared with the sealed bits. `output` is an .npz for the outputs. Each output says whether
    all that it depends on gave every bit where it was sealed. Raises SamebitsError for a file that is no seal, another
    model, inputs that do not fit, and for sealed steps that this model has not.

    >>> import samebits
    >>> sealed = samebits.seal("matmul x=3x8 w=8x4", "numpy")
    >>> found = samebits.run(sealed)
    >>> found.holds, found.outputs[0].is_exact
    (True, True)
    """
    seal = sealed if isinstance(sealed, Seal) else read_seal(sealed)
    if output is not None:
        _check_writable(output)
    began = time.monotonic()
    if seal.model is not None:
        if model is None:
            raise ArgumentError(f"the seal is of {seal.model.name[:80]}: give that file, too, which holds the weights")
        ran = _run_model(seal, seal.model, model, inputs, time_limit_s, progress)
    else:
        if model is not None:
            raise SealError("this seal is of problems; it has no model")
        ran = _run_problems(seal, inputs, progress)
    seconds = time.monotonic() - began
    if output is not None:
        _save(output, ran.arrays)
    outputs = [
        RanOutput(
            name=name, dtype=array.dtype.name, shape=list(array.shape), digest=digest_bits(array),
            is_exact=ran.exact[name],
        )
        for name, array in ran.arrays.items()
    ]  # fmt: skip
    return Run(
        subject=seal.subject, sealed=seal.content, engine=seal.engine, version=seal.version,
        data=f"the seal's own, seed {seal.seed}" if inputs is None else "given", steps=ran.steps, outputs=outputs,
        holds=ran.holds, seconds=seconds, saved=None if output is None else str(output),
        summary=summarize_run(seal, ran.steps, outputs, ran.holds), samebits_version=VERSION,
    )  # fmt: skip


def _run_problems(seal: Seal, inputs: str | Path | Mapping[str, np.ndarray] | None, progress: Progress) -> _Ran:
    """The problems with a recipe on the seal's operands, or the one that the given operands fit."""
    units = [unit for unit in seal.units if unit.recipe is not None]
    if not units:
        raise SealError("no problem of this seal has a recipe, so there is nothing to execute")
    arrays: Arrays = {}
    if inputs is not None:
        given = load_arrays(inputs) if isinstance(inputs, (str, Path)) else dict(inputs)
        unit, problem = _choose_problem(units, given)
        arrays["y"] = _execute(unit, problem, given)
        return _Ran(arrays, {"y": unit.is_whole}, [_tell_problem(unit)], None)
    holds = True
    for number, unit in enumerate(units):
        progress(f"computing {unit.problem[:60]}", number / len(units))
        problem = parse_any_problem(unit.problem)
        assert isinstance(problem, Problem)
        for (lowered, operands), digest in zip(draw_operands(problem, seal.seed), unit.digests, strict=True):
            assert isinstance(lowered, Problem)
            made = _execute(unit, lowered, operands)
            arrays.setdefault(unit.problem, made)
            holds = holds and digest_bits(made) == digest
    return _Ran(arrays, {unit.problem: unit.is_whole for unit in units}, [_tell_problem(u) for u in units], holds)


def _execute(unit: SealedUnit, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    check_memory(lower_problem(problem).convolution, 2)
    try:
        return emulate(problem, parse_recipe(unit.recipe or ""), operands)
    except (RecipeError, ProblemShapeError) as error:
        raise SealError(f"{unit.problem[:80]}: its recipe cannot be executed: {error}") from None


def _tell_problem(unit: SealedUnit) -> RanStep:
    return RanStep(name=unit.problem, says=unit.recipe or "", is_exact=unit.is_whole)


def _choose_problem(units: list[SealedUnit], given: Arrays) -> tuple[SealedUnit, Problem]:
    """The sealed problem whose operands have these names, shapes and dtypes; raises ArgumentError where none has."""
    said = ""
    for unit in units:
        problem = parse_any_problem(unit.problem)
        try:
            if isinstance(problem, Problem):
                check_operands(problem, given)
                return unit, problem
        except SamebitsError as error:
            said = said or str(error)
    raise ArgumentError(f"the operands fit no sealed problem with a recipe ({said[:150]})")


def _run_model(
    seal: Seal,
    sealed: SealedModel,
    model: str | Path,
    inputs: str | Path | Mapping[str, np.ndarray] | None,
    time_limit_s: float,
    progress: Progress,
) -> _Ran:
    network = read_onnx(model, time_limit_s=time_limit_s)
    if fingerprint(str(model), network) != sealed.fingerprint:
        raise SealError(f"{model} is not the model that was sealed: its fingerprint is another one")
    if not sealed.steps:
        raise SealError("the seal has no steps to execute: the engine runs no model whole, or was not observed")
    fed = _take_inputs(network, sealed, seal.seed, inputs)
    network = settle(network, fed)
    steps = [(_find_unit(network, step), _read_step(step)) for step in sealed.steps]
    arrays = run_steps(network, fed, steps, progress)
    holds = None
    if inputs is None:
        holds = all(digest_bits(arrays[o.name]) == o.digest for o in sealed.outputs if o.name in arrays)
    return _Ran(arrays, _find_exact(network, sealed, steps), [_tell_step(s) for s in sealed.steps], holds)


def _take_inputs(
    network: Network, sealed: SealedModel, seed: int, inputs: str | Path | Mapping[str, np.ndarray] | None
) -> Arrays:
    sizes = {name: tuple(shape) for name, shape in sealed.sizes.items() if name in network.inputs}
    if inputs is None:
        return make_inputs(network, seed, sizes=sizes)
    fed = load_inputs(network, inputs) if isinstance(inputs, (str, Path)) else check_inputs(network, inputs)
    for name, shape in sizes.items():
        if fed[name].shape != shape:
            raise ModelError(f"{name[:60]} has shape {fed[name].shape}, but {shape} was sealed: seal that size, too")
    return fed


def _find_unit(network: Network, step: SealedStep) -> Unit:
    """The unit of a sealed step in the network; raises SealError where the network has not these values."""
    missing = [v for v in (*step.nodes, *step.outputs) if v not in network.producers]
    if missing or not step.nodes:
        name = missing[0][:60] if missing else step.unit[:60]
        raise SealError(f"the seal speaks of {name!r}, which the model does not compute on these inputs")
    places = [network.producers[v] for v in step.nodes]
    return make_unit(network, fold_constants(network), places, step.outputs)


def _read_step(step: SealedStep) -> Step:
    try:
        recipe = None if step.recipe is None else parse_recipe(step.recipe)
    except RecipeError as error:
        raise SealError(f"the recipe of {step.unit[:60]} cannot be read: {error}") from None
    manner = read_manner(step.functions, step.means)
    if manner is None:
        said = f"{step.functions[:30]} {step.means[:60]}".strip()
        raise SealError(f"{step.unit[:60]} is computed in a manner that is unknown here: {said!r}")
    return Step(step.form, recipe, manner, step.rescales)


def _tell_step(step: SealedStep) -> RanStep:
    return RanStep(name=step.unit, says=say_step(step), is_exact=step.replay.is_whole)


def _find_exact(network: Network, sealed: SealedModel, steps: list[tuple[Unit, Step]]) -> dict[str, bool]:
    """By output, whether every step that it depends on gave every bit where it was sealed."""
    exact: dict[str, bool] = {}
    for (unit, _), step in zip(steps, sealed.steps, strict=True):
        is_exact = step.replay.is_whole and all(exact.get(v, True) for v in unit.inputs)
        exact |= dict.fromkeys(unit.outputs, is_exact)
    return {v: exact.get(v, True) for v in network.outputs}


def _check_writable(path: str | Path) -> None:
    """Raises ArgumentError before anything is computed for a file that would not be written."""
    if Path(path).suffix != ".npz":
        raise ArgumentError(f"{path}: outputs are written to an .npz")
    with _telling(path):
        check_target(path)


def _save(path: str | Path, arrays: Arrays) -> None:
    # np.savez has names of its own, which a value may have.
    with _telling(path), zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


@contextlib.contextmanager
def _telling(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SealError(f"{path} cannot be written: {error.strerror or error}") from None
