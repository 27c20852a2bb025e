"""A guard over torch modules: what it finds of injected faults, and that it finds nothing else."""

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  (torch may be missing)

from guarded_networks import (  # noqa: E402  (torch may be missing)
    CONV,
    make_faulty,
    make_network,
    make_pair,
    round_to_tf32,
    train,
    with_half_sums,
    with_lost_channel,
    with_nnpack,
    with_tf32,
    with_wrong_tile,
)
from needed_processor import has_wide_vectors  # noqa: E402  (torch may be missing)
from samebits.errors import ArgumentError, GuardBreachError  # noqa: E402  (torch may be missing)
from samebits.problems.case_file import load_case  # noqa: E402  (torch may be missing)
from samebits.questions.report.any_finding import read_finding  # noqa: E402  (torch may be missing)
from samebits.questions.report.rendering import render_markdown  # noqa: E402  (torch may be missing)
from samebits.torch import convert, guard  # noqa: E402  (torch may be missing)

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
@pytest.mark.parametrize(("cast", "scale"), [(False, 1.0), (True, 1.0), (False, 255.0), (False, 1e-30), (False, 0.0)])
def test_nothing_is_found_where_nothing_is_wrong(cast, scale):
    if cast and not has_wide_vectors():
        pytest.skip("torch's transposed convolution of bfloat16 is beyond its bound without AVX-512: that is a finding")
    net = make_network()
    with guard(net, share=1.0, on_breach="raise") as watch:
        train(net, 6, cast, scale)
    report = watch.report()
    assert report.outputs > 10_000
    assert (report.verdict, report.breaches, report.left_out) == ("rounding", [], {})
    assert {r.direction for r in report.results} == {"forward", "grad_input", "grad_weight"}


@pytest.mark.slow
def test_float64_and_layers_of_samebits_pass():
    net = convert(make_network()).double()
    with guard(net, share=1.0, on_breach="raise") as watch:
        net(torch.randn(2, 3, 12, 12, dtype=torch.float64)).sum().backward()
    assert watch.report().outputs > 1000
    assert all(r.max_over_bound <= 1 for r in watch.report().results if r.checks)
    assert "gradients of 0" in watch.report().left_out


FAULTS = {
    "tf32": (with_tf32, 1.0, "downgrade"),
    "half sums": (with_half_sums, 1.0, "downgrade"),
    "wrong tile": (with_wrong_tile, 64 / 576, "wrong"),
    "lost channel": (with_lost_channel, 0.9, "wrong"),
}


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
