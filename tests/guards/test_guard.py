"""A guard over torch modules: what it finds of injected faults, that it finds nothing else, and changes nothing."""

import copy
import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  (torch may be missing)

from samebits.errors import ArgumentError, GuardBreachError  # noqa: E402  (torch may be missing)
from samebits.problems.case_file import load_case  # noqa: E402  (torch may be missing)
from samebits.reports.documents.any_finding import read_finding  # noqa: E402  (torch may be missing)
from samebits.reports.markdown import render_markdown  # noqa: E402  (torch may be missing)
from samebits.torch import convert, guard  # noqa: E402  (torch may be missing)
from samebits.torch.layer_calls import LayerResult, find_node, read_backward, read_forward  # noqa: E402  (as above)
from samebits.torch.sampled_sums import Geometry, draw_block  # noqa: E402  (torch may be missing)

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")

LAYERS = {
    "linear": (lambda: nn.Linear(7, 5), (6, 7)),
    "linear of rows": (lambda: nn.Linear(7, 5, bias=False), (2, 3, 7)),
    "linear of one row": (lambda: nn.Linear(7, 5), (7,)),
    "1-D": (lambda: nn.Conv1d(4, 6, 5, stride=2, padding=2), (2, 4, 19)),
    "2-D": (lambda: nn.Conv2d(3, 20, 3, padding=1), (2, 3, 9, 7)),
    "unbatched": (lambda: nn.Conv2d(3, 8, (3, 1), padding=(1, 0)), (3, 9, 7)),
    "3-D": (lambda: nn.Conv3d(2, 4, 3, stride=(1, 2, 1), padding=1, bias=False), (1, 2, 5, 6, 4)),
    "dilated": (lambda: nn.Conv2d(4, 4, 3, dilation=2, stride=3), (2, 4, 11, 12)),
    "groups": (lambda: nn.Conv2d(6, 9, 3, groups=3, padding=1), (2, 6, 8, 8)),
    "depthwise": (lambda: nn.Conv2d(6, 12, 3, groups=6, stride=2), (2, 6, 9, 9)),
    "same": (lambda: nn.Conv2d(3, 5, 3, padding="same", dilation=2), (2, 3, 9, 9)),
    "same, even": (lambda: nn.Conv2d(3, 5, (4, 3), padding="same"), (2, 3, 9, 9)),
    "circular": (lambda: nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular"), (2, 3, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 6)),
    "transposed groups": (lambda: nn.ConvTranspose1d(4, 6, 4, stride=3, groups=2, dilation=2), (2, 4, 7)),
}


def set_integers(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-4, 5, parameter.shape, generator=generator))


@pytest.mark.parametrize("name", LAYERS)
def test_blocks_are_the_sums_of_torchs_outputs(name):
    """Small integers in float64: every sum is exact, and torch's own result is the expected value."""
    make, shape = LAYERS[name]
    layer = make().double()
    set_integers(layer, 1)
    x = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(2)).double().requires_grad_()
    y = layer(x)
    forward = read_forward(layer, (x,), {}, y)
    assert isinstance(forward, LayerResult)
    found = [forward]
    dy = torch.randint(-4, 5, y.shape, generator=torch.Generator().manual_seed(3)).double()

    def hear(made, given):
        found.extend(read_backward(forward, which, made, given[0]) for which in ("grad_input", "grad_weight"))

    find_node(y).register_hook(hear)
    y.backward(dy)
    rng = np.random.default_rng(4)
    seen = [f for f in found if isinstance(f, LayerResult)]
    # The gradient of what was padded before is not the layer's input's.
    padded = name == "same, even"
    assert [f.direction for f in seen] == ["forward", *([] if padded else ["grad_input"]), "grad_weight"]
    assert len(found) == 3
    for result in seen:
        for _ in range(20):
            block = draw_block(
                result.form,
                result.source,
                result.factors,
                result.result,
                result.kernel,
                result.geometry,
                rng,
                result.bias,
            )
            sums = np.einsum("bpk,bgk->bpg", block.left, block.right)
            np.testing.assert_array_equal(sums, block.result, err_msg=result.direction)
            assert 1 <= block.draws <= block.result.size


def test_every_output_can_be_drawn():
    x, w = torch.arange(1.0, 13).reshape(1, 2, 6), torch.ones(3, 2, 2)
    y = nn.functional.conv1d(x, w)
    y += torch.arange(y.numel()).reshape(y.shape) * 1000.0
    result = LayerResult("forward", "gather", x, w, y, (2,), Geometry((1,), (0,), (1,)))
    rng = np.random.default_rng(0)
    drawn = {
        float(v) for _ in range(60) for v in draw_block(result.form, x, w, y, (2,), result.geometry, rng).result.ravel()
    }
    assert drawn == set(y.ravel().tolist())


def make_network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, groups=64, padding=1),
        nn.ConvTranspose2d(64, 16, 2, stride=2), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def train(net: nn.Module, steps: int, cast: bool = False, scale: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(4, 3, 24, 24, generator=generator) * scale
        wanted = torch.randint(0, 10, (4,), generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
            loss = nn.functional.cross_entropy(net(x).float(), wanted)
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def test_no_bit_of_a_training_changes():
    plain, guarded = make_network(), make_network()
    without = train(plain, 4)
    state = torch.random.get_rng_state()
    with guard(guarded, share=0.7) as watch:
        within = train(guarded, 4)
    assert all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(without, within, strict=True))
    assert torch.equal(state, torch.random.get_rng_state())
    assert watch.report().checks > 20


@pytest.mark.parametrize(("cast", "scale"), [(False, 1.0), (True, 1.0), (False, 255.0), (False, 1e-30), (False, 0.0)])
def test_nothing_is_found_where_nothing_is_wrong(cast, scale):
    net = make_network()
    with guard(net, share=1.0, on_breach="raise") as watch:
        train(net, 6, cast, scale)
    report = watch.report()
    assert report.outputs > 10_000
    assert (report.verdict, report.breaches, report.left_out) == ("rounding", [], {})
    assert {r.direction for r in report.results} == {"forward", "grad_input", "grad_weight"}


def test_float64_and_layers_of_samebits_pass():
    net = convert(make_network()).double()
    with guard(net, share=1.0, on_breach="raise") as watch:
        net(torch.randn(2, 3, 12, 12, dtype=torch.float64)).sum().backward()
    assert watch.report().outputs > 1000
    assert all(r.max_over_bound <= 1 for r in watch.report().results if r.checks)
    assert "gradients of 0" in watch.report().left_out


# Faults: what a kernel does to its result, given its operands. Plain torch, on the result's data.


def round_to_tf32(tensor):
    bits = tensor.detach().contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def with_tf32(x, w, y, **options):
    return CONV(round_to_tf32(x), round_to_tf32(w), **options)


def with_half_sums(x, w, y, **options):
    total = torch.zeros_like(y, dtype=torch.float16)
    for c in range(x.shape[1]):
        total = (total.float() + CONV(x[:, c : c + 1], w[:, c : c + 1], **options)).half()
    return total.float()


def with_wrong_tile(x, w, y, **options):
    wrong = y.clone()
    wrong[..., :8, :8] = y[..., 1:9, :8]
    return wrong


def with_lost_channel(x, w, y, **options):
    return CONV(x[:, :-1], w[:, :-1], **options)


CONV = nn.functional.conv2d
FAULTS = {
    "tf32": (with_tf32, 1.0, "downgrade"),
    "half sums": (with_half_sums, 1.0, "downgrade"),
    "wrong tile": (with_wrong_tile, 64 / 576, "wrong"),
    "lost channel": (with_lost_channel, 0.9, "wrong"),
}


def make_faulty(monkeypatch, fault):
    """Convolutions of 32 channels in one group return what `fault` makes; their gradients stay torch's."""

    def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        y = CONV(x, w, bias, stride, padding, dilation, groups)
        if groups == 1 and w.shape[1] == 32:
            with torch.no_grad():
                y.data = fault(x, w, y, stride=stride, padding=padding, dilation=dilation)
        return y

    monkeypatch.setattr(nn.functional, "conv2d", conv2d)


def make_pair() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 40, 3, padding=1, bias=False))


@pytest.mark.parametrize("name", FAULTS)
def test_a_faulty_kernel_is_found_in_time(name, monkeypatch, tmp_path):
    """Within the number of steps after which its documented probability leaves one chance in a million."""
    fault, faulty, verdict = FAULTS[name]
    make_faulty(monkeypatch, fault)
    share, draws = 0.125, 16
    steps = math.ceil(math.log(1e-6) / math.log(1 - share * (1 - (1 - faulty) ** draws)))
    net, generator = make_pair(), torch.Generator().manual_seed(8)
    heard = []
    with guard(net, share=share, on_breach=heard.append, cases=tmp_path) as watch:
        for _ in range(steps):
            net(torch.randn(2, 3, 24, 24, generator=generator))
            if heard:
                break
    assert heard
    breach = heard[0]
    assert (breach.layer, breach.direction, breach.verdict) == ("2", "forward", verdict)
    assert load_case(breach.case).problem.kind == "linear"
    assert watch.report().verdict == verdict


@pytest.mark.parametrize("direction", ["forward", "grad_input", "grad_weight"])
@pytest.mark.parametrize("bit", [30, 29, 25, 23])
def test_a_flipped_exponent_bit_in_a_drawn_block_is_found(direction, bit, monkeypatch):
    """One number of a small result, so that every block holds it: whatever bit of its exponent flips."""
    torch.manual_seed(9)
    layer = nn.Linear(3, 2, bias=False)
    x = torch.randn(2, 3, requires_grad=True)

    def flip(tensor):
        flipped = tensor.clone()
        flat = flipped.view(torch.int32).view(-1)
        flat[1] ^= 1 << bit
        return flipped

    linear = nn.functional.linear

    def faulty(given, weight, bias=None):
        y = linear(given, weight, bias)
        if direction == "forward":
            y.data = flip(y.data)
        else:
            place = 0 if direction == "grad_input" else 1
            y.grad_fn.register_hook(
                lambda made, _: tuple(flip(g.contiguous()) if i == place else g for i, g in enumerate(made))
            )
        return y

    monkeypatch.setattr(nn.functional, "linear", faulty)
    with guard(layer, share=1.0) as watch:
        for _ in range(12):
            layer(x).sum().backward()
    report = watch.report()
    assert {b.direction for b in report.breaches} == {direction}
    assert report.verdict in ("wrong", "downgrade", "undecided")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e30])
def test_one_impossible_number_anywhere_is_found_at_once(value, monkeypatch):
    net = make_pair()

    def fault(x, w, y, **options):
        wrong = y.clone()
        wrong[1, 17, 11, 5] = value
        return wrong

    make_faulty(monkeypatch, fault)
    with guard(net, share=1.0, on_breach="raise") as watch, pytest.raises(GuardBreachError, match=r"\[1, 17, 11, 5\]"):
        net(torch.randn(2, 3, 24, 24))
    assert (watch.report().verdict, watch.report().breaches[0].certainty) == ("wrong", "bounds")


def test_numbers_that_are_not_finite_are_no_fault():
    layer = nn.Linear(300, 4).half()
    with torch.no_grad():
        layer.weight.fill_(30.0)
    given = torch.full((2, 300), 60.0, dtype=torch.float16)
    given[1, 0] = float("nan")
    with guard(layer, share=1.0, on_breach="raise") as watch:
        result = layer(given)
        layer.float()(torch.tensor([[float("inf")] * 300]))
    assert torch.isinf(result[0]).all()
    assert watch.report().verdict == "rounding"


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


def test_the_report_says_what_was_likely(tmp_path):
    net = make_pair()
    with guard(net, share=1.0) as watch:
        for _ in range(10):
            net(torch.randn(1, 3, 8, 8))
    draws = min(r.draws for r in watch.report().results if r.checks)
    missed = Fraction(99, 100) ** draws
    assert f"at least {float(1 - missed):.3g}" in str(watch)
    watch.save(tmp_path / "guard.json")
    assert json.loads((tmp_path / "guard.json").read_text())["schema"] == "samebits.guard/1"
    with pytest.raises(ArgumentError, match="could not be written"):
        watch.save(tmp_path)


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


def test_the_report_fits_its_schema_and_has_a_page(monkeypatch, tmp_path):
    import jsonschema

    make_faulty(monkeypatch, with_lost_channel)
    net = make_pair()
    with guard(net, share=1.0, cases=tmp_path) as watch:
        net(torch.randn(1, 3, 12, 12))
    watch.save(tmp_path / "guard.json")
    document = json.loads((tmp_path / "guard.json").read_text())
    schema = json.loads((ROOT / "docs/schemas/samebits.guard-1.json").read_text())
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    page = render_markdown(read_finding((tmp_path / "guard.json").read_bytes()))
    assert "**WRONG**" in page
    assert "output of 2" in page
    assert document["breaches"][0]["case"] in page
    assert "output of 2" in str(watch)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("terms", [32, 256])
def test_the_cause_is_named_with_a_bias_too(bias, terms, monkeypatch):
    torch.manual_seed(3)
    layer = nn.Linear(terms, 64, bias=bias)
    linear = nn.functional.linear
    monkeypatch.setattr(nn.functional, "linear", lambda x, w, b=None: linear(round_to_tf32(x), round_to_tf32(w), b))
    with guard(layer, share=1.0) as watch:
        layer(torch.randn(32, terms))
    (breach,) = watch.report().breaches
    assert (breach.verdict, breach.cause) == ("downgrade", "reduced-precision-operands")


def test_a_bias_that_is_left_out_is_called_so(monkeypatch):
    torch.manual_seed(4)
    layer = nn.Conv2d(8, 16, 3)
    monkeypatch.setattr(nn.functional, "conv2d", lambda x, w, b, *rest: CONV(x, w, None, *rest))
    with guard(layer, share=1.0) as watch, torch.no_grad():
        layer(torch.randn(2, 8, 12, 12))
    (breach,) = watch.report().breaches
    assert breach.verdict == "wrong"
    assert "bias" in breach.says


def test_of_what_is_not_finite_nothing_is_said():
    layer = nn.Linear(16, 8)
    with guard(layer, share=1.0) as watch:
        layer(torch.full((4, 16), float("nan")))
    report = watch.report()
    assert (report.verdict, report.outputs, report.breaches) == ("undecided", 0, [])
    assert "NaN or infinities" in report.summary
    with guard(layer, share=1.0) as watch:
        layer(torch.randn(4, 16))
        layer(torch.full((4, 16), float("nan")))
    report = watch.report()
    assert report.verdict == "rounding"
    assert "of 16 more nothing can be said" in report.summary
    assert any("first the output of the module at call 2" in e.says for e in report.evidence)
    assert report.results[0].draws == 4


def test_later_breaches_of_a_result_are_not_looked_into_again(monkeypatch):
    make_faulty(monkeypatch, with_tf32)
    net = make_pair()
    with guard(net, share=1.0) as watch, torch.no_grad():
        for _ in range(4):
            net(torch.randn(1, 3, 12, 12))
    report = watch.report()
    assert [b.verdict for b in report.breaches] == ["downgrade", "downgrade", "undecided", "undecided"]
    assert (report.verdict, report.cause) == ("downgrade", "reduced-precision-operands")
    assert "tf32" in report.summary


def test_gradients_that_nobody_asks_for_are_not_counted():
    net = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4))
    net[1].weight.requires_grad_(False)
    with guard(net, share=1.0) as watch:
        net(torch.randn(3, 6)).sum().backward()
    seen = {(r.layer, r.direction) for r in watch.report().results}
    assert seen == {("0", "forward"), ("0", "grad_weight"), ("1", "forward"), ("1", "grad_input")}
    assert all(r.checks == r.seen == 1 for r in watch.report().results)


def test_what_rounding_may_do_is_no_breach_however_often():
    """Equal terms: their roundings are not independent, and yet no bound of sums is exceeded."""
    layer = nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False)
    x = torch.full((2, 16, 64, 64), 0.3)
    with torch.no_grad():
        layer.weight.fill_(0.3)
    with guard(layer, share=1.0, on_breach="raise") as watch:
        for _ in range(6):
            y = layer(x)
            y.backward(torch.full_like(y, 0.1))
    report = watch.report()
    assert max(r.max_over_likely or 0 for r in report.results) > 1
    assert any("no fault was found in them" in e.says for e in report.evidence)


def with_nnpack(x, w, y, padding, **options):
    """Winograd's transform as a library has it, which rounds more than a sum of products can."""
    return torch._nnpack_spatial_convolution(x, w, None, padding)


def test_transforms_of_sound_kernels_are_no_breach(monkeypatch):
    if not torch.backends.nnpack.is_available():
        pytest.skip("torch has no NNPACK here")
    make_faulty(monkeypatch, with_nnpack)
    torch.manual_seed(2)
    layer = nn.Conv2d(32, 16, 3, padding=1, bias=False)
    x = torch.zeros(4, 32, 24, 24)
    # Sparse data, of which most outputs have few terms, while a transform rounds by the largest of its tile.
    x[torch.rand_like(x) > 0.97] = 30.0
    with guard(layer, share=1.0, on_breach="raise") as watch, torch.no_grad():
        for _ in range(6):
            layer(x)
    report = watch.report()
    assert report.results[0].max_over_bound > 1
    assert any("sound kernels" in e.says for e in report.evidence)


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


def test_a_group_counts_once():
    layer = nn.Conv2d(64, 8, 3, groups=4)
    y = layer(torch.randn(1, 64, 6, 6))
    call = read_forward(layer, (torch.randn(1, 64, 6, 6),), {}, y)
    block = draw_block(
        call.form, call.source, call.factors, call.result, call.kernel, call.geometry, np.random.default_rng(0)
    )
    assert block.draws == block.left.shape[0]


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
