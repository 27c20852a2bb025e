"""Runners of networks for tests: ONNX's own reference, with a fault at a node or without."""

import numpy as np
from onnx.reference import ReferenceEvaluator

from samebits.engines.runner import Identity
from samebits.networks.model_runners import rewire


class ReferenceSide:
    """ONNX's reference evaluator. `change` may alter what a node returns: change(node's output name, array)."""

    def __init__(self, text="reference", change=None, alters_when_observed=()):
        self.text, self.change, self.alters = text, change, alters_when_observed
        self.observed_sets = []

    def identify(self):
        return Identity(self.text, self.text, "1", "CPU")

    def run_network(self, network, inputs, observed, wanted, given):
        import onnx

        self.observed_sets.append(tuple(observed))
        names = list(dict.fromkeys([*network.outputs, *observed, *wanted]))
        model = onnx.load_from_string(rewire(network, [v for n in network.nodes for v in n.outputs if v], given))
        session = ReferenceEvaluator(model)
        feeds = {**inputs, **given}
        if self.change is None:
            values = dict(zip(session.output_names, session.run(None, feeds), strict=True))
        else:
            values = self._run_changed(network, feeds)
        for value in self.alters:
            if value in observed:
                # Observed, it is rounded otherwise: so is the result.
                for name in network.outputs:
                    values[name] = np.nextafter(values[name], np.float32(np.inf))
        return {name: values[name] for name in names if name in wanted}

    def _run_changed(self, network, feeds):
        values = {**network.constants, **feeds}
        for node in network.nodes:
            if all(v in feeds for v in node.outputs if v):
                continue
            single = ReferenceEvaluator(node.stored)
            results = single.run(None, {v: values[v] for v in node.inputs if v})
            for name, result in zip([v for v in node.outputs if v], results, strict=True):
                if name not in feeds:
                    values[name] = np.asarray(self.change(name, np.asarray(result), values)).astype(result.dtype)
        return values

    def close(self):
        pass
