"""jax's programs are compiled once a problem."""

import numpy as np
import pytest

from samebits.engines.adapters.jax import JaxEngine
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal

jax = pytest.importorskip("jax")


@pytest.fixture(autouse=True)
def _configuration():
    """What the engine sets is for its own worker; this process gets back what it had."""
    names = ("jax_enable_x64", "jax_platforms", "jax_default_matmul_precision")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def load(**settings: str) -> JaxEngine:
    engine = JaxEngine()
    engine.load(settings)
    return engine


def test_a_problem_is_traced_once_and_takes_other_operands(monkeypatch):
    engine, traced = load(), []
    forward = engine._forward
    monkeypatch.setattr(engine, "_forward", lambda *given: traced.append(1) or forward(*given))
    problem = parse_problem_text("conv2d x=1x2x5x5 w=3x2x3x3 dtype=float32")
    results = []
    for seed in range(3):
        # Integers, whose sums are exact in any order.
        operands = {n: np.round(a * 4) for n, a in make_normal(problem, seed).items()}
        results.append(engine.run(problem, operands))
        windows = np.lib.stride_tricks.sliding_window_view(operands["x"].astype(np.float64), (3, 3), axis=(2, 3))
        exact = np.einsum("nchwij,ocij->nohw", windows, operands["w"].astype(np.float64))
        np.testing.assert_array_equal(results[-1], exact)
    assert len(traced) == 1
    assert not np.array_equal(results[0], results[1])


@pytest.mark.slow
def test_programs_of_many_problems_are_not_all_kept():
    engine = load(jit="off")
    problems = [parse_problem_text(f"conv1d x=1x1x{n} w=1x1x2 dtype=float32") for n in range(2, 80)]
    for problem in problems:
        assert engine.run(problem, make_normal(problem)).shape == problem.out_shape
    assert problems[-1] in engine.programs
    assert len(engine.programs) < len(problems)
