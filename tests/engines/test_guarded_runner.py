"""Runners that are sound but careless with arrays are judged rightly, and none can end or falsify a comparison."""

import ctypes
import tempfile

import numpy as np
import pytest

import samebits
from naive_convolution import convolve
from samebits.engines.runner import Identity
from samebits.engines.runner.guarded_runner import list_runners
from samebits.errors import ArgumentError

TEXT = "conv2d x=2x3x6x6 w=4x3x3x3 padding=1"


class Careless:
    """Sums in float64 and rounds: sound, whatever a subclass does to arrays."""

    def __init__(self, text="careless"):
        self.text = text

    def identify(self):
        return Identity(self.text, "careless", "1", "CPU")

    def run(self, problem, operands):
        return self.hand_out(convolve(problem, operands).astype(np.float32), operands)

    def hand_out(self, result, operands):
        return result

    def close(self):
        pass


class OneBuffer(Careless):
    buffer = None

    def hand_out(self, result, operands):
        if self.buffer is None:
            self.buffer = np.empty_like(result)
        self.buffer[:] = result
        return self.buffer


class OneBufferTransposed(OneBuffer):
    """Another view of the buffer each time."""

    def hand_out(self, result, operands):
        return super().hand_out(np.ascontiguousarray(result.swapaxes(0, 1)), operands).swapaxes(0, 1)


class MappedFile(Careless):
    def hand_out(self, result, operands):
        with tempfile.NamedTemporaryFile() as file:
            mapped = np.memmap(file, result.dtype, "w+", shape=result.shape)
        mapped[:] = result
        return mapped


class WritesAround(Careless):
    """Changes operands in place though they are read-only, as foreign code can."""

    def hand_out(self, result, operands):
        for array in operands.values():
            ctypes.memset(array.ctypes.data, 0x3F, array.nbytes)
        return result


class InPlace(Careless):
    def hand_out(self, result, operands):
        operands["x"] *= 2
        return result


def judge(*runners, **options):
    found = samebits.compare(TEXT, [*runners], **options)
    return {side.name: side for side in found.sides}


@pytest.mark.parametrize(
    ("careless", "note"),
    [
        (OneBuffer, "buffer"),
        (OneBufferTransposed, "buffer"),
        (MappedFile, "memory-mapped"),
        (WritesAround, "changed x"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_sound_runner_is_judged_by_what_it_computed(careless, note, first):
    runners = [careless(), Careless("control")]
    sides = judge(*(runners if first else runners[::-1]))
    assert {side.verdict for side in sides.values()} == {"identical"}
    assert sides["careless"].exact_data.differing == sides["control"].exact_data.differing == 0
    assert any(note in e.says for e in sides["careless"].evidence)
    assert not any(note in e.says for e in sides["control"].evidence)


@pytest.mark.parametrize("careless", [OneBuffer, MappedFile, WritesAround])
def test_a_profile_of_a_careless_runner_is_that_of_a_careful_one(careless):
    careful, found = samebits.profile(Careless(), TEXT), samebits.profile(careless(), TEXT)
    assert found.replay == careful.replay
    assert found.recipe == careful.recipe
    assert found.replay.matched == 1.0


def test_a_runner_that_changes_read_only_operands_learns_why_it_failed():
    sides = judge(InPlace(), Careless("control"))
    assert sides["careless"].failure.kind == "error"
    assert "read-only" in sides["careless"].failure.says
    assert sides["control"].verdict == "identical"


class Odd(BaseException):
    def __str__(self):
        raise RuntimeError("no words")


class Raising(Careless):
    def __init__(self, error, where):
        super().__init__()
        self.error, self.where = error, where

    def identify(self):
        if self.where == "identify":
            raise self.error
        return super().identify()

    def run(self, problem, operands):
        if self.where == "run":
            raise self.error
        return super().run(problem, operands)

    def close(self):
        if self.where == "close":
            raise self.error


@pytest.mark.parametrize("where", ["identify", "run"])
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (GeneratorExit(), "GeneratorExit"),
        (Odd(), "Odd"),
        (ValueError("one\n\nline"), "ValueError: one line"),
    ],
)
def test_whatever_is_raised_is_a_finding_of_that_side(where, error, says):
    sides = judge(Raising(error, where), Careless("control"))
    assert sides["careless"].failure.kind == "error"
    assert sides["careless"].failure.says == says
    assert sides["control"].verdict == "identical"
    assert says in samebits.profile(Raising(error, where), TEXT).failure


def test_an_interrupt_goes_on():
    with pytest.raises(KeyboardInterrupt):
        judge(Raising(KeyboardInterrupt(), "run"), Careless("control"))


def test_closing_is_left_to_the_caller():
    assert judge(Raising(ValueError("twice"), "close"))["careless"].verdict == "identical"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda y: np.ma.masked_array(y, y > 0), "masked array"),
        (lambda y: y.tolist(), "list"),
        (lambda y: y.astype(np.float64), "dtype float64"),
        (lambda y: y[..., :-1], "shape"),
    ],
)
def test_what_is_no_result_is_a_finding(make, says):
    class Other(Careless):
        def hand_out(self, result, operands):
            return make(result)

    assert says in judge(Other(), Careless("control"))["careless"].failure.says


def test_an_identity_that_is_none_is_a_finding():
    class Anonymous(Careless):
        def identify(self):
            return "careless"

    assert "Identity" in judge(Anonymous())["careless"].failure.says


class NoText:
    def identify(self): ...
    def run(self, problem, operands): ...
    def close(self): ...


class BadText(NoText):
    @property
    def text(self):
        raise RuntimeError("no text today")


class BadRepr:
    def __repr__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize("thing", [NoText(), BadText(), BadRepr(), 3, None, Careless(""), Careless(5)])
@pytest.mark.parametrize("ask", [lambda r: samebits.compare(TEXT, [r]), lambda r: samebits.profile(r, TEXT)])
def test_what_is_no_runner_is_refused_in_one_line(thing, ask):
    with pytest.raises(ArgumentError) as raised:
        ask(thing)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "engines"),
    [
        ("torch", ["torch"]),
        ("torch,jax", ["torch", "jax"]),
        ("torch:threads=1,layout=channels_last,onnxruntime", ["torch:threads=1,layout=channels_last", "onnxruntime"]),
        ("torch:threads={1,2},mkldnn=off,jax", ["torch:threads={1,2},mkldnn=off", "jax"]),
        ("torch:threads=1,torch:threads=2", ["torch:threads=1", "torch:threads=2"]),
        ("./own.py:kernel,torch", ["./own.py:kernel", "torch"]),
        ("./own.py:Engine:key=1,other=2", ["./own.py:Engine:key=1,other=2"]),
        ("emulate:direct order=c,kh,kw", ["emulate:direct order=c,kh,kw"]),
        ("torch,emulate:direct order=c,kh,kw", ["torch", "emulate:direct order=c,kh,kw"]),
        ("torch:env.FOO=a\\,b", ["torch:env.FOO=a\\,b"]),
    ],
)
def test_one_text_may_name_several_engines(text, engines):
    assert list_runners(text) == engines
