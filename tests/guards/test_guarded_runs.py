"""A guard changes nothing of a run, keeps nothing of it, ends none, and names what it cannot check."""

import copy

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  (torch may be missing)

from guarded_networks import make_faulty, make_network, make_pair, train, with_lost_channel  # noqa: E402  (needs torch)
from samebits.errors import ArgumentError  # noqa: E402  (torch may be missing)
from samebits.torch import guard  # noqa: E402  (torch may be missing)


def test_no_bit_of_a_training_changes():
    plain, guarded = make_network(), make_network()
    without = train(plain, 4)
    state = torch.random.get_rng_state()
    with guard(guarded, share=0.7) as watch:
        within = train(guarded, 4)
    assert all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(without, within, strict=True))
    assert torch.equal(state, torch.random.get_rng_state())
    assert watch.report().checks > 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")
def test_compiled_and_checkpointed_modules_are_checked():
    net = make_network()
    compiled = torch.compile(net, backend="eager")
    with guard(net, share=1.0, on_breach="raise") as watch:
        compiled(torch.randn(2, 3, 24, 24)).sum().backward()
        between = watch.report().checks
        x = torch.randn(2, 3, 24, 24, requires_grad=True)
        torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False).sum().backward()
        with torch.inference_mode():
            net(torch.randn(2, 3, 24, 24))
    assert 0 < between < watch.report().checks


class Standardized(nn.Conv2d):
    """Weights standardized before they are used."""

    def forward(self, given):
        centred = self.weight - self.weight.mean()
        return nn.functional.conv2d(given, centred)


def test_what_cannot_be_checked_is_named():
    net = nn.Sequential(Standardized(3, 4, 3), nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 4, 1)), nn.ReLU())
    with guard(net, share=1.0, on_breach="raise") as watch:
        net(torch.randn(1, 3, 8, 8)).sum().backward()
    report = watch.report()
    assert set(report.left_out) == {"0", "1"}
    assert report.verdict == "undecided"
    assert "Standardized" in report.left_out["0"]


def test_an_input_that_is_overwritten_where_autograd_allows_it():
    layer = nn.Linear(5, 4)
    layer.weight.requires_grad_(False)
    given = torch.randn(6, 5, requires_grad=True) * 1
    with guard(layer, share=1.0, on_breach="raise") as watch:
        y = layer(given)
        given.mul_(2)
        y.sum().backward()
    assert {r.direction for r in watch.report().results if r.checks} == {"forward", "grad_input"}


def test_nothing_of_a_graph_is_kept():
    import gc
    import weakref

    layer = nn.Conv2d(3, 4, 3)
    gc.disable()
    try:
        with guard(layer, share=1.0):
            given = torch.randn(1, 3, 8, 8)
            gone = weakref.ref(given)
            y = layer(given)
            del given, y
        assert gone() is None
    finally:
        gc.enable()


def test_a_closed_guard_is_gone():
    layer = nn.Linear(3, 3)
    watch = guard(layer, share=1.0)
    y = layer(torch.randn(2, 3))
    watch.close()
    y.sum().backward()
    layer(torch.randn(2, 3))
    assert watch.is_closed
    assert {(r.direction, r.checks) for r in watch.report().results if r.checks} == {("forward", 1)}
    assert not layer._forward_hooks


def test_the_draw_is_the_seeds():
    def count(seed):
        net = make_pair()
        with guard(net, share=0.3, seed=seed) as watch:
            for _ in range(10):
                net(torch.zeros(1, 3, 8, 8))
        return [(r.layer, r.direction, r.checks) for r in watch.report().results]

    assert count(1) == count(1)
    assert count(1) != count(2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"share": 0.0}, "share"), ({"share": 1.5}, "share"), ({"share": "half"}, "share"), ({"share": True}, "share"),
        ({"seed": -1}, "seed"), ({"seed": "a"}, "seed"), ({"cases": 5}, "cases"), ({"on_breach": "stop"}, "on_breach"),
        ({"module": 3}, "int"),
    ],
)  # fmt: skip
def test_arguments_that_are_none(arguments, says):
    module = arguments.pop("module", nn.ReLU())
    with pytest.raises(ArgumentError, match=says):
        guard(module, **arguments)


def test_a_copy_of_a_guarded_module_works():
    net = make_pair()
    with guard(net, share=1.0):
        copy.deepcopy(net)(torch.randn(1, 3, 8, 8))


def test_gradients_that_nobody_asks_for_are_not_counted():
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    net[1].weight.requires_grad_(False)
    with guard(net, share=1.0) as watch:
        net(torch.randn(3, 6)).sum().backward()
    seen = {(r.layer, r.direction) for r in watch.report().results}
    assert seen == {("0", "forward"), ("0", "grad_weight"), ("1", "forward"), ("1", "grad_input")}
    assert all(r.checks == r.seen == 1 for r in watch.report().results)


def per_sample(layer, x):
    return torch.func.vmap(lambda a: layer(a[None]))(x)


@pytest.mark.parametrize(
    "use",
    [
        per_sample,
        lambda layer, x: layer.to("meta")(x.to("meta")),
        lambda layer, x: torch.func.grad(lambda a: layer(a).sum())(x),
        lambda layer, x: torch.autograd.functional.jacobian(lambda a: layer(a).sum(0), x, vectorize=True),
    ],
)
def test_what_cannot_be_checked_ends_nothing(use):
    layer = nn.Linear(6, 4)
    with guard(layer, share=1.0, on_breach="raise") as watch:
        use(layer, torch.randn(3, 6))
    assert watch.report().breaches == []


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_an_empty_layer_is_left_out():
    layer = nn.Linear(0, 4)
    with guard(layer, share=1.0) as watch:
        layer(torch.randn(3, 0))
    assert "empty" in watch.report().left_out["the module"]


def test_what_others_make_of_a_result_is_not_the_layers():
    net = make_pair()
    net[0].register_forward_hook(lambda module, given, result: result * 2)
    patched = nn.Conv2d(3, 4, 3)
    patched.forward = lambda given: nn.functional.relu(nn.functional.conv2d(given, patched.weight))
    with guard(nn.ModuleList([net, patched]), share=1.0, on_breach="raise") as watch:
        net(torch.randn(2, 3, 12, 12))
        patched(torch.randn(2, 3, 12, 12))
    assert watch.report().left_out == {"1": "its forward was replaced"}


def test_a_layer_that_becomes_parametrized_is_left_out():
    net = nn.Sequential(nn.Linear(8, 8))
    with guard(net, share=1.0, on_breach="raise") as watch:
        nn.utils.parametrizations.spectral_norm(net[0])
        net(torch.randn(4, 8)).sum().backward()
    assert "parametrized" in watch.report().left_out["0"]


def test_copies_and_files_of_a_guarded_module_have_no_guard(tmp_path):
    net = make_pair()
    with guard(net, share=1.0) as watch:
        other = copy.deepcopy(net)
        torch.save(net, tmp_path / "net.pt")
        other(torch.randn(1, 3, 8, 8))
        read = torch.load(tmp_path / "net.pt", weights_only=False)
        read(torch.randn(1, 3, 8, 8))
    assert watch.report().results == []


def test_gradients_that_come_in_parts_are_checked_when_they_come():
    layer = nn.Linear(5, 4)
    x = torch.randn(3, 5, requires_grad=True)
    with guard(layer, share=1.0, on_breach="raise") as watch:
        loss = layer(x).sum()
        torch.autograd.grad(loss, x, retain_graph=True)
        loss.backward()
    assert {r.direction: r.checks for r in watch.report().results} == {"forward": 1, "grad_input": 1, "grad_weight": 1}


def test_results_are_let_go():
    import gc
    import weakref

    layer = nn.Conv2d(3, 4, 3)
    gc.disable()
    try:
        with guard(layer, share=1.0):
            y = layer(torch.randn(1, 3, 8, 8))
            gone = weakref.ref(y.untyped_storage())
            z = y + 1
            del y
            assert gone() is None
            z.sum().backward()
    finally:
        gc.enable()


def test_a_callback_may_ask_for_the_report_from_another_thread(monkeypatch):
    import threading

    make_faulty(monkeypatch, with_lost_channel)
    seen = []

    def hear(breach):
        other = threading.Thread(target=lambda: seen.append(watch.report().verdict))
        other.start()
        other.join(20)

    net = make_pair()
    with guard(net, share=1.0, on_breach=hear) as watch, torch.no_grad():
        net(torch.randn(1, 3, 12, 12))
    assert seen == ["wrong"]
