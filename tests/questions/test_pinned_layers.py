"""Layers pinned to a lock have the bits that the engine has under the locked settings, whatever the program sets."""

import copy

import numpy as np
import pytest

import samebits
from samebits.engines.registry.runners import open_runner
from samebits.errors import LockError
from samebits.findings import json_from_finding
from samebits.problems import format_problem
from samebits.questions.pick.lock_file import find_place
from samebits.questions.pick.pick_schema import Choice, Contract, Lock, LockedChoice

torch = pytest.importorskip("torch")
layers = pytest.importorskip("samebits.torch")
nn = torch.nn

LAYERS = [
    (nn.Conv1d, (16, 24, 3), {"padding": 1, "stride": 2}, (2, 16, 33)),
    (nn.Conv2d, (16, 24, 3), {"padding": "same", "groups": 2, "dilation": 2}, (3, 16, 17, 16)),
    (nn.Conv2d, (8, 9, (2, 4)), {"padding": "same", "bias": False}, (2, 8, 9, 9)),
    (nn.Conv2d, (8, 9, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 8, 9, 9)),
    (nn.Conv3d, (4, 5, 2), {}, (2, 4, 6, 5, 5)),
    (nn.ConvTranspose2d, (8, 16, 3), {"stride": 2, "groups": 2, "output_padding": 1}, (2, 8, 9, 9)),
    (nn.Linear, (200, 60), {}, (3, 40, 200)),
    (nn.Linear, (200, 60), {"bias": False}, (200,)),
]
SETTINGS = ["torch:mkldnn=off,threads=1", "torch:layout=channels_last,threads=2", "torch:threads=2"]


def run(layer, x):
    layer.zero_grad()
    x = x.clone().requires_grad_()
    y = layer(x)
    dy = torch.randn(y.shape, generator=torch.Generator().manual_seed(3))
    y.backward(dy)
    return y.detach(), x.grad, layer.weight.grad, dy


@pytest.fixture(scope="module")
def ask():
    """What the engine itself returns, in a process of its own for each text."""
    opened = {}

    def run_engine(text, problem, **operands):
        if text not in opened:
            opened[text] = open_runner(text)
        given = {n: np.ascontiguousarray(t.detach().numpy()) for n, t in operands.items() if t is not None}
        return opened[text].run(problem, given)

    yield run_engine
    for runner in opened.values():
        runner.close()


def write_lock(path, problems, text):
    """A lock as picking leaves it, without picking."""
    choices = [
        Choice(problem=format_problem(p), engine=text, time_s=1.0, rejected=[], places=[find_place(text)])
        for p in problems
    ]
    kept = [LockedChoice(contract=Contract(), choice=choice) for choice in choices]
    path.write_text(json_from_finding(Lock(samebits_version="0", choices=kept)))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize("text", SETTINGS)
@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), LAYERS)
def test_a_pinned_layer_has_the_bits_of_the_locked_engine(kind, sizes, options, shape, text, tmp_path, ask):
    torch.manual_seed(0)
    layer, x, lock = kind(*sizes, **options), torch.randn(shape), tmp_path / "samebits.lock"
    problems = layers.list_problems(layer, x, gradients=True)
    assert [p.direction for p in problems] == ["forward", "grad_input", "grad_weight"]
    if problems[0].product:
        text = text.replace("layout=channels_last,", "linear_as=matmul,")
    write_lock(lock, problems, text)
    state = copy.deepcopy(layer.state_dict())
    pinned = layers.convert(layer, lock=lock)
    assert pinned is layer
    assert all(torch.equal(a, b) for a, b in zip(state.values(), layer.state_dict().values(), strict=True))
    y, dx, dw, dy = run(layer, x)
    if "padding_mode" in options:
        x = nn.functional.pad(x, layer._reversed_padding_repeated_twice, mode=layer.padding_mode)
    given, dy = (x.unsqueeze(0), dy.unsqueeze(0)) if x.dim() == 1 else (x, dy)
    forward, by_input, by_weight = problems
    expected = ask(text, forward, x=given, w=layer.weight, bias=layer.bias)
    np.testing.assert_array_equal(y.reshape(forward.y_shape), expected)
    if "padding_mode" not in options:
        np.testing.assert_array_equal(dx.reshape(forward.x), ask(text, by_input, w=layer.weight, dy=dy))
    np.testing.assert_array_equal(dw, ask(text, by_weight, x=given, dy=dy))


def test_what_the_program_sets_does_not_reach_a_pinned_layer_and_stays_as_it_was(tmp_path):
    torch.manual_seed(0)
    plain, x = nn.Conv2d(64, 64, 3, padding=1), torch.randn(2, 64, 20, 20)
    lock = tmp_path / "samebits.lock"
    samebits.pick(layers.list_problems(plain, x, gradients=True), ["torch:threads=2"], lock=lock)
    pinned = layers.convert(copy.deepcopy(plain), lock=lock)
    threads, found = torch.get_num_threads(), []
    try:
        for number, mkldnn in ((2, True), (1, True), (2, False), (1, False)):
            torch.set_num_threads(number)
            torch.backends.mkldnn.enabled = mkldnn
            for memory in (torch.contiguous_format, torch.channels_last):
                found.append(run(pinned, x.contiguous(memory_format=memory))[:3])
                assert torch.get_num_threads() == number
                assert torch.backends.mkldnn.enabled == mkldnn
    finally:
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = True
    with torch.autocast("cpu", torch.bfloat16):
        found.append(run(pinned, x)[:3])
    torch.set_float32_matmul_precision("medium")
    try:
        found.append(run(pinned, x)[:3])
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.slow
def test_a_problem_without_a_choice_and_choices_that_are_no_layers_are_named(tmp_path):
    lock, layer, x = tmp_path / "samebits.lock", nn.Conv1d(2, 3, 3), torch.randn(1, 2, 9)
    problems = layers.list_problems(layer, x)
    samebits.pick(problems, ["truth"], lock=lock)
    pinned = layers.convert(layer, lock=lock)
    with pytest.raises(LockError, match=r"has truth for conv1d x=1x2x9 .*: layers are computed by torch"):
        pinned(x)
    with pytest.raises(LockError, match="has no choice for conv1d x=2x2x9 w=3x2x3 bias dtype=float32; samebits pick"):
        pinned(torch.randn(2, 2, 9))
    write_lock(lock, problems, "torch:threads=1,deterministic=on")
    with pytest.raises(LockError, match="deterministic is no setting of one layer"):
        layers.convert(layer, lock=lock)(x)
    write_lock(lock, problems, "torch:threads=1")
    y = layers.convert(layer, lock=lock)(x)
    with pytest.raises(LockError, match=r"no choice for conv1d\.grad_weight"):
        y.sum().backward()
    lock.write_text(lock.read_text().replace('"device": "', '"device": "another '))
    with pytest.raises(LockError, match="does not know the bits of torch:threads=1 here"):
        layers.convert(layer, lock=lock)(x)
    # Without a lock it is the truth again.
    exact = layers.convert(layer)(x).detach().numpy()
    operands = {"x": x.numpy(), "w": layer.weight.detach().numpy(), "bias": layer.bias.detach().numpy()}
    np.testing.assert_array_equal(exact, samebits.compute_truth(problems[0], operands).values)


def test_problems_of_a_network_are_listed_once_and_all_stays_as_it_is():
    drops = nn.Sequential(nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Conv2d(3, 3, 3))
    x, state = torch.randn(1, 3, 5, 5), torch.get_rng_state()
    kept = x.clone()
    assert len(layers.list_problems(drops, x)) == 1
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, kept)
    net = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3), nn.Conv2d(3, 3, 3, padding=1), nn.Flatten())
    before = copy.deepcopy(net.state_dict())
    found = layers.list_problems(net, torch.randn(2, 3, 5, 5))
    assert [format_problem(p) for p in found] == ["conv2d x=2x3x5x5 w=3x3x3x3 bias padding=1 dtype=float32"]
    assert all(torch.equal(a, b) for a, b in zip(before.values(), net.state_dict().values(), strict=True))
    assert type(net[0]) is nn.Conv2d
