"""A module whose own framework computes another function than its graph: neither side is called wrong."""

from dataclasses import replace

import numpy as np
import pytest

from networks.model_sides import ReferenceSide
from networks.network_building import residual
from samebits.engines.registry.runners import Emulator
from samebits.findings import Evidence
from samebits.networks import exact_products
from samebits.networks.model_comparing import compare_model
from samebits.networks.model_runners import ProgramRunner
from samebits.networks.network import Program
from samebits.networks.onnx_reading import make_network
from samebits.sums.recipes import parse_recipe

NETWORK = replace(make_network(residual(), "net"), program=Program("net.pt2", "torch"))


class ProgramSide(ReferenceSide, ProgramRunner):
    """The program, run by ONNX's reference; `change` is what it computes otherwise than its graph."""

    def list_observable(self, values):
        return list(values)


def other(name, result, values):
    return result * np.float32(1.5) if name == "c2" else result


def test_a_program_that_differs_from_its_graph_leaves_open_which_is_meant():
    found = compare_model(NETWORK, [ProgramSide("torch", other), "onnxruntime"])
    assert [s.verdict for s in found.sides] == ["undecided", "undecided"]
    assert found.summary.startswith(
        "In conv_c2 (Conv+Add+Relu) torch computes another function than the graph that torch's exporter made"
    )
    assert found.first == "conv_c2"
    assert [s.deviating for s in found.sides] == [1, 1]


@pytest.mark.parametrize("confirms", [True, False])
def test_a_graph_that_a_run_of_the_program_confirms_is_the_truth(confirms):
    sides = [ProgramSide("torch:compile=on", other), ProgramSide("torch") if confirms else "onnxruntime"]
    found = compare_model(NETWORK, sides)
    assert [s.verdict for s in found.sides] == (["wrong", "rounding"] if confirms else ["undecided"] * 2)


@pytest.mark.parametrize("is_proved", [True, False])
def test_a_fault_of_the_engine_by_itself_is_no_question_of_meaning(is_proved, monkeypatch):
    """Its convolution is wrong on exact integers, in no network at all."""

    class Broken(ProgramSide):
        def __init__(self):
            super().__init__("torch", other)
            self.worker = Emulator(parse_recipe("direct"))

    wrong = Evidence("structure", "wrong on exact integers")
    monkeypatch.setattr(exact_products._ExactTask, "find_fault", lambda *_: wrong if is_proved else None)
    found = compare_model(NETWORK, [Broken(), "onnxruntime:threads=1"])
    assert found.sides[0].verdict == ("wrong" if is_proved else "undecided")


def test_an_engine_that_runs_the_graph_is_wrong_by_it():
    found = compare_model(NETWORK, [ProgramSide("torch"), ReferenceSide("engine", other)])
    assert [s.verdict for s in found.sides] == ["rounding", "wrong"]
