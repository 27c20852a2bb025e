"""Products probed through a session: a runner that multiplies in a known order is asked as a convolution."""

import numpy as np
import pytest

from samebits.engines.probes.invariances import is_invariant_to_batch_position, is_invariant_to_batch_size
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.runner import Identity
from samebits.engines.runner.lowered_runner import LoweredRunner
from samebits.errors import EngineUnsupported
from samebits.problems import parse_problem_text
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_exact, make_normal


class BlockedProduct:
    """Adds float32 products in blocks of k, each in order with rounded products, then the blocks in order."""

    text = "blocked"

    def __init__(self, block, by_rows=False):
        self.block, self.by_rows, self.seen = block, by_rows, set()

    def identify(self):
        return Identity(self.text, "blocked", "1", "CPU")

    def run(self, problem, operands):
        self.seen.add(problem)
        with np.errstate(all="ignore"):
            return self._compute(problem, operands)

    def _compute(self, problem, operands):
        w = operands["w"].T if problem.kind == "linear" else operands["w"]
        y = self._multiply(operands["x"], w)
        return y + operands["bias"] if problem.bias else y

    def _multiply(self, x, w):
        length = x.shape[-1]
        # As some BLAS do: another order where there are many rows.
        block = length if self.by_rows and x.shape[-2] > 4 else self.block
        total = None
        for start in range(0, length, block):
            part = None
            for k in range(start, min(start + block, length)):
                product = x[..., :, k, None] * w[..., k, None, :]
                part = product if part is None else part + product
            total = part if total is None else total + part
        return total

    def close(self):
        pass


@pytest.mark.parametrize("block", [1, 4, 7, 100])
@pytest.mark.parametrize("text", ["linear x=5x30 w=6x30", "matmul x=2x5x30 w=2x30x6", "matmul x=3x1x4x30 w=2x30x6",
                                  "matmul x=1x30 w=30x9", "matmul x=9x30 w=30x1"])  # fmt: skip
def test_the_order_of_a_product_is_found_and_replayed(text, block):
    problem = parse_problem_text(text)
    runner = BlockedProduct(block)
    session = ProbeSession(runner, problem)
    found = search_recipe(session)
    assert found.stopped is None
    assert found.chosen.matched == 1.0
    assert found.chosen.compared >= 144
    # It was asked the product itself, and never another shape.
    assert runner.seen == {problem}


def test_a_runner_is_asked_as_a_product_of_one_shape_only():
    problem = parse_problem_text("linear x=5x30 w=6x30")
    session = ProbeSession(BlockedProduct(4), problem)
    assert isinstance(session.runner, LoweredRunner)
    other = parse_problem_text("conv1d x=4x30x1 w=6x30x1")
    with pytest.raises(EngineUnsupported):
        session.runner.run(other, make_normal(other))


def test_rows_that_come_with_others_may_change_their_bits():
    four = parse_problem_text("linear x=4x30 w=6x30")
    assert is_invariant_to_batch_size(BlockedProduct(4), four)
    assert is_invariant_to_batch_size(BlockedProduct(4, by_rows=True), four) is False
    assert is_invariant_to_batch_position(BlockedProduct(4), parse_problem_text("matmul x=3x4x30 w=3x30x6"))
    assert is_invariant_to_batch_size(BlockedProduct(4), parse_problem_text("matmul x=30 w=30x6")) is None
    assert is_invariant_to_batch_size(BlockedProduct(4), parse_problem_text("linear.grad_weight x=4x30 w=6x30")) is None


def test_the_result_of_a_lowered_runner_is_the_products():
    problem = parse_problem_text("matmul x=3x1x4x30 w=2x30x6")
    lowering = lower_problem(problem)
    operands = make_exact(problem)
    lowered = ProbeSession(BlockedProduct(30), problem).ask(lowering.lower_operands(operands))
    np.testing.assert_array_equal(lowering.restore_result(lowered), operands["x"] @ operands["w"])
