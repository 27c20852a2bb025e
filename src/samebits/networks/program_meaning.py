"""Where a framework computes another function of a module than the graph that was exported from it.

The graph is what one exporter made of the module, and the truth that units are judged by is its. For torch another
exporter's graph could say something else; a Keras model is exported from one backend, and what a layer means to another
one may differ. Where no run of the module itself confirms the graph, neither side is called wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.workers.place import HERE
from samebits.findings import Evidence, is_agreement
from samebits.networks.model_conclusion import Asked, Outcome
from samebits.networks.model_judging import JudgedUnit
from samebits.networks.model_runners import ProgramRunner
from samebits.networks.model_sentences import say_meaning, say_unit_name

# Where Keras's graphs come from.
_EXPORTING = "torch"


def settle_meaning(outcome: Outcome) -> None:
    """Leaves open which side is right where the module and its graph are two functions, and says so at the unit."""
    program = outcome.network.program
    if program is None or program.kind == "tflite":
        # What such a file says is read from the file itself.
        return
    asked = [a for a in outcome.asked if a.observer and isinstance(a.runner, ProgramRunner)]
    is_keras = program.kind == "keras"
    own = [a for a in asked if not is_keras or not _is_exporting(a)]
    exported = "Keras's torch backend" if is_keras else "torch's exporter"
    for unit in outcome.judged:
        names = _list_differing(unit, [a.name for a in own if a.name in unit.sides], several=is_keras)
        if names:
            others = len({_find_engine(a) for a in own if a.name in names}) > 1 and unit.are_alike(names)
            named = say_unit_name(unit.unit.name, unit.unit.operators)
            unit.meaning = say_meaning(named, names, exported, alike=others)
            _leave_open(unit, names, exported)


def _is_exporting(asked: Asked) -> bool:
    """Whether a side is the backend that the graph comes from: that of another environment may be other code."""
    text = parse_runner_text(asked.runner.text)
    return text.name == _EXPORTING and text.place == HERE


def _find_engine(asked: Asked) -> str:
    return parse_runner_text(asked.runner.text).name


def _list_differing(unit: JudgedUnit, own: Sequence[str], *, several: bool) -> list[str]:
    """The sides that compute another function than the graph's, where none of `own` computes the graph's.

    They do so where bounds prove it; with `several` also where two of them return the same, which no recipe explains.
    What bits or exact integers prove of an engine is its own fault, whatever the module means.
    """
    judged = {name: unit.sides[name] for name in own if unit.sides[name].is_judged}
    if any(is_agreement(j.verdict) for j in judged.values()):
        return []
    open_ = [name for name, j in judged.items() if j.cause_certainty != "bits" and not j.is_wrong_alone]
    proved = [name for name in open_ if judged[name].verdict == "wrong"]
    return open_ if several and len(open_) > 1 and unit.are_alike(open_) else proved


def _leave_open(unit: JudgedUnit, differing: Sequence[str], exported: str) -> None:
    for name, judged in unit.sides.items():
        is_other = name in differing
        if not is_other and not is_agreement(judged.verdict):
            continue
        what = "computes another function than" if is_other else "computes what is in"
        unit.sides[name] = replace(
            judged,
            verdict="undecided",
            certainty="open",
            cause=None,
            cause_certainty=None,
            says=f"{what} the graph that {exported} made of it",
            evidence=(*judged.evidence, *([Evidence("structure", judged.says)] if judged.says else [])),
        )
