"""The sealed arithmetic executed where the engine is absent, bit for bit, problem by problem or unit by unit."""

from __future__ import annotations

import contextlib
import io
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
from samebits.networks.network_steps import digest_nodes, run_steps, settle
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
_LONGEST_NAME = 1000


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
    problems = {unit.problem: _read_problem(unit) for unit in units}
    arrays: Arrays = {}
    if inputs is not None:
        given = load_arrays(inputs) if isinstance(inputs, (str, Path)) else _take_arrays(inputs)
        unit = _choose_problem(units, problems, given)
        arrays["y"] = _execute(unit, problems[unit.problem], given)
        return _Ran(arrays, {"y": unit.is_whole}, [_tell_problem(unit)], None)
    same = True
    for number, unit in enumerate(units):
        progress(f"computing {unit.problem[:60]}", number / len(units))
        problem = problems[unit.problem]
        lowering = lower_problem(problem)
        check_memory(lowering.convolution, 2)
        drawn = list(draw_operands(problem, seal.seed))
        if len(drawn) != len(unit.digests):
            raise SealError(f"{unit.problem[:80]}: {len(drawn)} digests belong to a problem, and there are others")
        for (lowered, operands), digest in zip(drawn, unit.digests, strict=True):
            assert isinstance(lowered, Problem)
            made = _execute(unit, lowered, operands)
            arrays.setdefault(unit.problem, lowering.restore_result(made))
            same = same and digest_bits(made) == digest
    # What was not executed is open, unless what was is not as sealed.
    holds = None if same and len(units) < len(seal.units) else same
    return _Ran(arrays, {unit.problem: unit.is_whole for unit in units}, [_tell_problem(u) for u in units], holds)


def _read_problem(unit: SealedUnit) -> Problem:
    problem = parse_any_problem(unit.problem)
    if not isinstance(problem, Problem):
        raise SealError(f"{unit.problem[:80]}: no recipe says how this is computed")
    return problem


def _take_arrays(inputs: Mapping[str, np.ndarray]) -> Arrays:
    if not isinstance(inputs, Mapping):
        raise ArgumentError("inputs are arrays by name, or an .npz of them")
    return dict(inputs)


def _execute(unit: SealedUnit, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    check_memory(lower_problem(problem).convolution, 2)
    try:
        return emulate(problem, parse_recipe(unit.recipe or ""), operands)
    except (RecipeError, ProblemShapeError) as error:
        raise SealError(f"{unit.problem[:80]}: its recipe cannot be executed: {error}") from None


def _tell_problem(unit: SealedUnit) -> RanStep:
    return RanStep(name=unit.problem, says=unit.recipe or "", is_exact=unit.is_whole)


def _choose_problem(units: list[SealedUnit], problems: Mapping[str, Problem], given: Arrays) -> SealedUnit:
    """The sealed problem whose operands have these names, shapes and dtypes; ArgumentError where not just one has."""
    said, found = "", list[SealedUnit]()
    for unit in units:
        try:
            check_operands(problems[unit.problem], given)
            found.append(unit)
        except SamebitsError as error:
            said = said or str(error)
    if len(found) > 1:
        texts = "; ".join(unit.problem[:60] for unit in found[:3])
        raise ArgumentError(f"the operands fit {len(found)} sealed problems ({texts}): seal one of them by itself")
    if not found:
        raise ArgumentError(f"the operands fit no sealed problem with a recipe ({said[:150]})")
    return found[0]


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
    if digest_nodes(network) != sealed.nodes:
        raise SealError("on these inputs the model takes another branch, or other rounds, than where it was sealed")
    if {output.name for output in sealed.outputs} != set(network.outputs):
        raise SealError("the seal's outputs are not those of the model")
    steps = [(_find_unit(network, step), _read_step(step)) for step in sealed.steps]
    arrays = run_steps(network, fed, steps, progress)
    holds = None
    if inputs is None:
        holds = all(digest_bits(arrays[output.name]) == output.digest for output in sealed.outputs)
    exact = _find_exact(sealed, steps)
    return _Ran(
        arrays, {v: exact[v] and holds is not False for v in arrays}, list(map(_tell_step, sealed.steps)), holds
    )


def _take_inputs(
    network: Network, sealed: SealedModel, seed: int, inputs: str | Path | Mapping[str, np.ndarray] | None
) -> Arrays:
    sizes = {name: tuple(shape) for name, shape in sealed.sizes.items() if name in network.inputs}
    if inputs is None:
        return make_inputs(network, seed, sizes=sizes)
    fed = (
        load_inputs(network, inputs) if isinstance(inputs, (str, Path)) else check_inputs(network, _take_arrays(inputs))
    )
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
    return RanStep(name=step.unit, says=say_step(step), is_exact=step.is_exact)


def _find_exact(sealed: SealedModel, steps: list[tuple[Unit, Step]]) -> dict[str, bool]:
    """By output, whether all steps that it depends on gave every bit where it was sealed, and so they did together."""
    exact: dict[str, bool] = {}
    for (unit, _), step in zip(steps, sealed.steps, strict=True):
        is_exact = step.is_exact and all(exact.get(v, True) for v in unit.inputs)
        exact |= dict.fromkeys(unit.outputs, is_exact)
    return {o.name: exact.get(o.name, True) and o.replay is not None and o.replay.is_whole for o in sealed.outputs}


def _check_writable(path: str | Path) -> None:
    """Raises ArgumentError before anything is computed for a file that would not be written."""
    if Path(path).suffix != ".npz":
        raise ArgumentError(f"{path}: outputs are written to an .npz")
    with _telling(path):
        check_target(path)


def _save(path: str | Path, arrays: Arrays) -> None:
    """Writes the arrays by name; numbers of formats that NumPy has not as float32, which holds them."""
    held = io.BytesIO()
    # np.savez has names of its own, which a value may have.
    with zipfile.ZipFile(held, "w") as archive:
        for name, array in arrays.items():
            if "\0" in name or len(name) > _LONGEST_NAME:
                raise SealError(f"{path}: an output's name cannot be written ({name[:40]!r})")
            plain = array.astype(np.float32) if array.dtype.kind == "V" else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(plain), allow_pickle=False)
    with _telling(path):
        Path(path).write_bytes(held.getvalue())


@contextlib.contextmanager
def _telling(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SealError(f"{path} cannot be written: {error.strerror or error}") from None
