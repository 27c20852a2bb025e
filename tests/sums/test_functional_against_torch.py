"""Which arguments the public convolutions take, and what shape they give: torch is the oracle of both."""

import itertools

import numpy as np
import pytest

import samebits
from samebits.errors import OperandError, SamebitsError

torch = pytest.importorskip("torch")
F = torch.nn.functional
NAMES = [f"conv{t}{rank}d" for t in ("", "_transpose") for rank in (1, 2, 3)]
SPATIAL, KERNEL = (9, 8, 7), (3, 2, 3)

ONE_NUMBER = (1, 2, 3, 0, -1, (2,), [2], (0,), (), 2.0, "2", None, True, False, np.int64(2), np.bool_(True), 2**70)
PER_AXIS = (
    (2, 1),
    [1, 2],
    (2, 1, 1),
    (1, 2, 2, 1),
    (2.0, 1),
    (True, 1),
    torch.Size([2, 1]),
    range(1, 3),
    {1, 2},
    b"12",
)
SIZES = (*ONE_NUMBER, *PER_AXIS, np.array([2, 1]), torch.tensor(2), torch.tensor([2, 1]), torch.tensor(2.0))
TEXTS = ("same", "valid", "full", "Same", "")


def draw(shape, seed):
    return torch.from_numpy(np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32))


def make_operands(name, groups=1):
    rank = int(name[-2])
    x = draw((2, 4, *SPATIAL[:rank]), 0)
    w = draw((4, 6 // groups, *KERNEL[:rank]) if "transpose" in name else (6, 4 // groups, *KERNEL[:rank]), 1)
    return x, w


def check_as_torch(name, *operands, **attributes):
    """Refused by both, or by none and then of one shape and, as these integers are exact, of one value everywhere."""
    try:
        expected = getattr(F, name)(*operands, **attributes)
    except (TypeError, RuntimeError, ValueError):
        with pytest.raises(SamebitsError) as caught:
            getattr(samebits, name)(*operands, **attributes)
        assert len(str(caught.value).splitlines()) == 1
        return False
    got = getattr(samebits, name)(*operands, **attributes)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert torch.equal(got, expected)
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attribute", ["stride", "padding", "dilation", "output_padding"])
def test_sizes_are_taken_in_the_forms_that_torch_takes(name, attribute):
    if attribute == "output_padding" and "transpose" not in name:
        pytest.skip("belongs to transposed ones")
    x, w = make_operands(name)
    others = {"stride": 3} if attribute == "output_padding" else {}
    values = SIZES + (TEXTS if attribute == "padding" else ())
    taken = [v for v in values if check_as_torch(name, x, w, **others, **{attribute: v})]
    assert len(taken) >= 5
    assert len(values) - len(taken) >= 15


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_padding_in_words_goes_with_the_strides_and_dilations_that_it_goes_with_in_torch(name):
    x, w = make_operands(name)
    for padding, stride, dilation in itertools.product(("same", "valid"), (1, (1,), 2, (2,)), (1, 2, (2,))):
        check_as_torch(name, x, w, padding=padding, stride=stride, dilation=dilation)


@pytest.mark.parametrize("name", NAMES)
def test_attributes_stand_in_the_sequence_of_torch(name):
    x, w = make_operands(name, groups=2)
    bias = draw((6,), 2)
    transposed = "transpose" in name
    stride, padding, dilation, extra = 2, 1, 3, 1
    positional = (stride, padding, extra, 2, dilation) if transposed else (stride, padding, dilation, 2)
    for count in range(len(positional) + 1):
        rest = {"groups": 2} if count < 4 else {}
        assert check_as_torch(name, x, w, bias, *positional[:count], **rest)


@pytest.mark.parametrize("name", NAMES)
def test_groups_and_biases_are_taken_in_the_forms_that_torch_takes(name):
    for groups in (1, 2, 3, 0, -1, True, 1.0, "1", None, np.int64(2), torch.tensor(2), (1,), 2**70):
        for x, w in (make_operands(name), make_operands(name, groups=2)):
            check_as_torch(name, x, w, groups=groups)
    x, w = make_operands(name)
    taken = [
        s for s in ((6,), (1,), (), (1, 6), (6, 1), (4,), (0,), (1, 6, 1, 1)) if check_as_torch(name, x, w, draw(s, 3))
    ]
    assert taken == [(6,)]


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_gives_an_empty_batch_as_in_torch(name):
    x, w = make_operands(name)
    for attributes in ({}, {"stride": 2, "padding": 1}, {"dilation": 3}, {"stride": (1,), "padding": (0,)}):
        assert check_as_torch(name, x[:0], w, **attributes)
        assert check_as_torch(name, x[:0], w, draw((6,), 2), **attributes)
    # What is wrong in a batch of any size is wrong in an empty one.
    assert not check_as_torch(name, x[:0, :3], w)
    assert not check_as_torch(name, x[:0], w, draw((5,), 2))
    with pytest.raises(OperandError, match="float64"):  # torch does not look at dtypes where it computes nothing.
        getattr(samebits, name)(x[:0], w.double())
    assert not check_as_torch(name, x[:0], w, stride=0)
    assert getattr(samebits, name)(x[:0].numpy(), w.numpy(), dtype="float64").dtype == np.float64


@pytest.mark.parametrize("name", NAMES)
def test_shapes_are_taken_as_torch_takes_them(name):
    x, w = make_operands(name)
    for other in (x[0], x[0, 0], x[None], x[:, :3], x[:, :, :0], x[..., :1], x[..., :2], x.flatten()):
        check_as_torch(name, other, w)
    for other in (w[0], w[None], w[:0], w[:, :3], w[:, :, :0], w[:, :0], w.flatten()):
        check_as_torch(name, x, other)
    assert not check_as_torch(name, x, w.double())
    assert not check_as_torch(name, x.half(), w)
    assert not check_as_torch(name, x, None)
    assert not check_as_torch(name, None, w)


def test_an_output_padding_is_below_stride_or_dilation_as_in_torch():
    x, w = make_operands("conv_transpose2d")
    for stride, dilation, extra in itertools.product((1, 2), (1, 3), range(4)):
        check_as_torch("conv_transpose2d", x, w, stride=stride, dilation=dilation, output_padding=extra)


def test_no_input_channels_are_refused_where_torch_returns_another_number_of_channels():
    x, w = torch.ones((2, 0, 9)), torch.ones((6, 0, 3))
    assert F.conv1d(x, w).shape[1] == 0  # Six output channels were asked for.
    with pytest.raises(SamebitsError, match="at least 1"):
        samebits.conv1d(x, w)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_mask_is_not_lost_but_refused(place):
    operands = [np.ones((1, 2, 5), np.float32), np.ones((3, 2, 3), np.float32), np.ones(3, np.float32)]
    operands[place] = np.ma.masked_array(operands[place], operands[place] > 0)
    with pytest.raises(OperandError, match="masked array"):
        samebits.conv1d(*operands)


def test_jax_without_64_bits_is_told_how_to_get_a_float64_result():
    jax = pytest.importorskip("jax")
    x, w = (jax.numpy.asarray(np.full(s, 1 + 2.0**-20, np.float32)) for s in ((1, 2, 5), (3, 2, 3)))
    with pytest.raises(OperandError, match=r"would come back as float32.*jax_enable_x64"):
        samebits.conv1d(x, w, dtype="float64")
    with jax.enable_x64(True):
        got = samebits.conv1d(x, w, dtype="float64")
    assert isinstance(got, jax.Array)
    assert np.asarray(got).dtype == np.float64
    assert np.asarray(got)[0, 0, 0] == 6 * (1 + 2.0**-20) ** 2  # Exact in float64, not in float32.


class Library:
    """An array library whose arrays hold at most `most` bits, some by narrowing, some by raising."""

    class Array:
        def __init__(self, values, raises):
            self.values, self.dtype, self.raises = values, values.dtype, raises

        def __array__(self, dtype=None, copy=None):
            return self.values

        def __array_namespace__(self, api_version=None):
            return Library(self.raises)

    __name__ = "narrow"

    def __init__(self, raises):
        self.raises = raises

    def asarray(self, values):
        if values.dtype == np.float64 and self.raises:
            raise NotImplementedError("no double here\nsee the manual")
        return Library.Array(values.astype(np.float32) if values.dtype == np.float64 else values, self.raises)


@pytest.mark.parametrize(("raises", "says"), [(True, "no double here"), (False, "come back as float32")])
def test_a_library_that_cannot_hold_the_result_is_named(raises, says):
    library = Library(raises)
    x, w = library.asarray(np.ones((1, 2, 5), np.float32)), np.ones((3, 2, 3), np.float32)
    assert samebits.conv1d(x, w).dtype == np.float32
    with pytest.raises(OperandError, match=says) as caught:
        samebits.conv1d(x, w, dtype=np.float64)
    assert len(str(caught.value).splitlines()) == 1


def test_an_array_that_says_only_how_it_becomes_a_numpy_array_gives_one():
    class Plain:
        def __array__(self, dtype=None, copy=None):
            return np.ones((1, 2, 5), np.float32)

    assert type(samebits.conv1d(Plain(), np.ones((3, 2, 3), np.float32))) is np.ndarray
