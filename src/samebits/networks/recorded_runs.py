"""A run of a network elsewhere, of which values are on record: a side that is judged and never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from samebits.engines.runner import Identity
from samebits.errors import EngineUnsupported, ModelError
from samebits.networks.network import Network
from samebits.numbers.format import FORMATS, numpy_dtype

_MOST_NAMED = 3


class RecordedRunner:
    """Returns what was recorded on the network's inputs; raises EngineUnsupported where it is asked for more."""

    def __init__(self, text: str, values: Mapping[str, np.ndarray], unknown: Sequence[str] = ()):
        self.text = text
        self.values = dict(values)
        # Names of recorded values that the network does not have.
        self.unknown = list(unknown)

    def identify(self) -> Identity:
        return Identity(self.text, self.text, "", "")

    def list_observable(self, values: Sequence[str]) -> list[str]:
        """Which of these values were recorded."""
        return [v for v in values if v in self.values]

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        if given:
            raise EngineUnsupported("what was recorded cannot be run with other values")
        if missing := [v for v in (*observed, *wanted) if v not in self.values]:
            raise EngineUnsupported(f"the value {missing[0][:60]!r} was not recorded")
        return {v: self.values[v] for v in wanted}

    def close(self) -> None:
        """Nothing is held."""


def take_recorded(network: Network, side: str, given: Mapping[str, np.ndarray]) -> RecordedRunner:
    """The runner of recorded values, by the network's own names; an only value of another name is the only output.

    Values that the network does not have are left out. Raises ModelError in one line where an output is missing, or a
    value has another shape or type than the network declares for it.
    """
    named = {name: given[name] for name in given if name in network.producers}
    unknown = [name for name in given if name not in named and name not in network.inputs]
    if len(given) == len(network.outputs) == 1 and not named and not set(given) & set(network.inputs):
        named, unknown = dict(zip(network.outputs, given.values(), strict=True)), []
    if missing := [name for name in network.outputs if name not in named]:
        has = ", ".join(name[:60] for name in list(given)[:_MOST_NAMED]) or "nothing"
        raise ModelError(
            f"{side}: the output {missing[0][:60]!r} is not among what was recorded ({has}"
            f"{', ...' if len(given) > _MOST_NAMED else ''})"
        )
    return RecordedRunner(side, {name: _check(network, side, name, array) for name, array in named.items()}, unknown)


def _check(network: Network, side: str, name: str, array: np.ndarray) -> np.ndarray:
    array = np.asarray(array, array.dtype.newbyteorder("="), order="C")
    type_ = network.types.get(name)
    if type_ is None:
        return array
    shape = type_.shape
    if len(shape) != array.ndim or any(a not in (None, b) for a, b in zip(shape, array.shape, strict=True)):
        wanted = "x".join("?" if size is None else str(size) for size in shape) or "a single number"
        raise ModelError(f"{side}: {name[:60]!r} was recorded as {array.shape}, but the network makes {wanted}")
    if type_.dtype and array.dtype.name != type_.dtype:
        array = _convert(side, name, array, type_.dtype)
    return array


def _convert(side: str, name: str, array: np.ndarray, dtype: str) -> np.ndarray:
    """The same numbers in another type; raises ModelError where that type does not hold them."""
    try:
        wanted = numpy_dtype(dtype) if dtype in FORMATS else np.dtype(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            converted = array.astype(wanted)
            same = (converted.astype(array.dtype) == array) | ((array != array) & (converted != converted))
    except (TypeError, ValueError):
        same, converted = np.zeros(1, bool), array
    if not same.all():
        raise ModelError(
            f"{side}: {name[:60]!r} was recorded as {array.dtype}, and the network's {dtype} does not hold its numbers"
        )
    return converted
