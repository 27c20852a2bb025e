"""What a network is fed: given arrays, or random ones made from its signature."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samebits.errors import ModelError, ResourceLimitError
from samebits.limits import VALUE_BYTES
from samebits.networks.network import Network, ValueType
from samebits.networks.open_sizes import settle_shapes
from samebits.numbers.format import FORMATS, numpy_dtype
from samebits.regular_files import open_regular

_LARGEST_TOKEN = 10


def make_inputs(
    network: Network,
    seed: int,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> dict[str, np.ndarray]:
    """Random inputs: normal ones, or uniform in the range given by name; codes of 8 bits, other whole numbers 0 to 9.

    Sizes that the network leaves open are those of `sizes`, or what `settle_shapes` finds. Raises ModelError for a
    range of an input that there is not, for sizes that nothing decides, and for dtypes that nobody can draw.
    """
    ranges = ranges or {}
    if unknown := set(ranges) - set(network.inputs):
        raise ModelError(f"the model has no input {sorted(unknown)[0]!r}; it has: {', '.join(network.inputs)}")
    rng = np.random.default_rng(seed)
    shapes = settle_shapes(network, sizes)
    return {name: _draw(rng, name, type_, shapes[name], ranges.get(name)) for name, type_ in network.inputs.items()}


def _draw(
    rng: np.random.Generator,
    name: str,
    type_: ValueType,
    shape: tuple[int, ...],
    limits: tuple[float, float] | None,
) -> np.ndarray:
    if type_.dtype in FORMATS:
        with np.errstate(over="ignore"):
            values = rng.standard_normal(shape) if limits is None else _spread(rng, *limits, shape)
            return np.asarray(values).astype(numpy_dtype(type_.dtype))
    if type_.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if type_.dtype.startswith(("int", "uint")):
        holds = np.iinfo(type_.dtype)
        # Eight bits are codes or pixels; more of them count things.
        usual = (int(holds.min), int(holds.max)) if holds.bits == 8 else (0, _LARGEST_TOKEN)
        low, high = usual if limits is None else (int(limits[0]), int(limits[1]))
        if not holds.min <= low <= high <= holds.max:
            raise ModelError(f"input {name[:60]} has dtype {type_.dtype}, which does not hold {low:.4g} to {high:.4g}")
        return rng.integers(low, max(high, low + 1), shape, dtype=type_.dtype, endpoint=False)
    raise ModelError(f"input {name[:60]} has dtype {type_.dtype or 'unknown'}; give arrays with --inputs")


def _spread(rng: np.random.Generator, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
    """Uniform between two numbers, however far apart they are."""
    share = rng.random(shape)
    return low * (1.0 - share) + high * share


def load_inputs(network: Network, path: str | Path) -> dict[str, np.ndarray]:
    """Inputs from an .npz by name (an only input under any name); raises ModelError where they do not fit."""
    return check_inputs(network, load_arrays(path))


def load_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .npz, by name; raises ModelError, in one line, for what cannot be read as one."""
    try:
        with open_regular(path) as file:
            stored = np.load(file, allow_pickle=False)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ModelError(f"{path}: inputs are arrays by name, an .npz, and this is one array without a name")
            with stored:
                # An entry is never read beyond the size that the archive states for it.
                members = stored.zip.infolist() if stored.zip is not None else []
                VALUE_BYTES.check(sum(member.file_size for member in members), str(path))
                return {name: stored[name] for name in stored.files}
    except MemoryError:
        raise ResourceLimitError(f"{path}: inputs that do not fit in memory") from None
    except (ModelError, ResourceLimitError):
        raise
    except Exception as error:  # Readers of zip and npy raise whatever hostile bytes make them raise.
        said = str(error).splitlines()[0][:150] if str(error) else type(error).__name__
        raise ModelError(f"{path}: inputs cannot be read: {said}") from None


def check_inputs(network: Network, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs as the network declares them, contiguous; raises ModelError where one is missing or does not fit."""
    if len(network.inputs) == 1 and len(given) == 1:
        given = {next(iter(network.inputs)): next(iter(given.values()))}
    if unknown := sorted(set(given) - set(network.inputs)):
        raise ModelError(f"the model has no input {unknown[0][:60]!r}; it has: {', '.join(network.inputs)}")
    checked: dict[str, np.ndarray] = {}
    for name, type_ in network.inputs.items():
        if name not in given:
            raise ModelError(f"input {name[:60]!r} is missing; the model takes: {', '.join(network.inputs)}")
        array = np.asarray(given[name])
        fits = len(array.shape) == len(type_.shape) and all(
            size in (None, own) for size, own in zip(type_.shape, array.shape, strict=True)
        )
        if not fits:
            wanted = "x".join("?" if size is None else str(size) for size in type_.shape)
            raise ModelError(f"input {name[:60]!r} has shape {array.shape}, but the model takes {wanted}")
        if type_.dtype and array.dtype.name != type_.dtype:
            raise ModelError(f"input {name[:60]!r} has dtype {array.dtype}, but the model takes {type_.dtype}")
        checked[name] = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    return checked
