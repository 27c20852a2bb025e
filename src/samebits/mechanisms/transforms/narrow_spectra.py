"""Fourier transforms with spectra in a narrow format: exact sums of rounded spectra held against a result."""

from __future__ import annotations

import itertools

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.mechanisms.transforms.fourier_arrangements import (
    FourierArrangement,
    list_fourier_arrangements,
    predict_fourier,
    transform,
)


def find_narrow_spectra(observation: Observation) -> tuple[Mechanism, float] | None:
    """The arrangement whose rounded spectra come closest, if they come so much closer than the declared sums.

    With what it leaves of the distance. Inferred: nothing says that no other arrangement comes as close.
    """
    listed = list_fourier_arrangements(observation.problem)
    closest: FourierArrangement | None = None
    least, tried = thresholds.SPECTRA, 0
    for _, alike in itertools.groupby(listed, key=lambda a: (a.lengths, a.padded, a.reversed)):
        arrangements = list(alike)
        tiles = transform(observation, arrangements[0])
        if tiles is None:
            continue
        declared = _measure_distance(tiles.given, tiles.true)
        for arrangement in arrangements:
            tried += 1
            share = _measure_distance(tiles.given, predict_fourier(tiles, arrangement)) / declared if declared else 1.0
            if share < least:
                closest, least = arrangement, share
    if closest is None:
        return None
    says = (
        f"exact sums of such spectra come {1 / max(least, 1e-9):.3g} times closer to the result than the declared sums;"
        f" {tried - 1} other arrangements do not come so close"
    )
    evidence = (Evidence("statistic", says),)
    return Mechanism(CauseCode.FFT, "downgrade", closest.say(), "nearness", evidence=evidence), least


def _measure_distance(given: Floats, predicted: Floats) -> float:
    """The root mean square where there is a result; infinite of a prediction that overflows, which it cannot be."""
    away = (given - predicted)[~np.isnan(given)]
    return float(np.sqrt(np.mean(away**2))) if np.isfinite(away).all() else np.inf
