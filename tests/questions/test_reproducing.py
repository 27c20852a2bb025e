"""Everything that makes a run repeatable is set in a block, and put back behind it."""

import random

import numpy as np
import pytest

import samebits
from samebits.errors import ReproducibilityError

torch = pytest.importorskip("torch")


def draw():
    return random.random(), np.random.random(), torch.rand(2).tolist()


def look():
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
        torch.backends.cudnn.deterministic,
        torch.backends.mkldnn.deterministic,
    )


def test_the_same_numbers_come_in_every_block_and_outside_goes_on_as_if_nothing_had_been():
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = [draw(), draw()]
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    first = draw()
    with samebits.reproducible(seed=3):
        one = draw()
    with samebits.reproducible(seed=3):
        other = draw()
    with samebits.reproducible(seed=4):
        third = draw()
    assert one == other != third
    assert [first, draw()] == expected


def test_settings_are_set_noted_and_put_back():
    torch.backends.cudnn.benchmark = True
    before = look()
    with samebits.reproducible() as done:
        assert look() == (True, False, False, True, True)
        names = {c.name for c in done.changes}
        assert {"python seed", "numpy seed", "torch seed", "torch.use_deterministic_algorithms"} <= names
        assert any(n.endswith("cudnn.benchmark") for n in names)
        assert any("threads" in r for r in done.remarks)
    assert look() == before
    torch.backends.cudnn.benchmark = False


def test_they_are_put_back_behind_an_error_too():
    before = look()
    with pytest.raises(ZeroDivisionError), samebits.reproducible():
        1 / 0  # noqa: B018  (raises)
    assert look() == before


def test_an_operation_without_a_deterministic_kernel_is_named():
    with pytest.raises(ReproducibilityError, match="put_"), samebits.reproducible():
        torch.zeros(3).put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, "1"])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ReproducibilityError, match="whole number"), samebits.reproducible(seed):
        pass
