"""The public convolutions on several libraries' arrays, judged by exact data and by torch's float64."""

import ml_dtypes
import numpy as np
import pytest

import samebits
from samebits.errors import OperandError, ProblemShapeError, ResourceLimitError, SamebitsError
from samebits.numbers import numpy_dtype

torch = pytest.importorskip("torch")
F = torch.nn.functional


def integers(shape, seed=0):
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


CASES = [
    ("conv1d", (2, 4, 19), (6, 2, 3), {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}),
    ("conv2d", (2, 4, 9, 8), (6, 4, 3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ("conv2d", (2, 4, 9, 8), (6, 4, 3, 2), {"padding": "same"}),
    ("conv3d", (1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": 1}),
    ("conv_transpose1d", (2, 4, 9), (4, 3, 4), {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}),
    ("conv_transpose2d", (2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ("conv_transpose3d", (1, 2, 3, 4, 5), (2, 3, 2, 2, 2), {"stride": (1, 2, 3), "dilation": 2}),
]


# torch's, about the memory it takes for a kernel of even length.
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize(("name", "x_shape", "w_shape", "attributes"), CASES)
def test_arguments_mean_what_they_mean_in_torch(name, x_shape, w_shape, attributes):
    x, w = integers(x_shape), integers(w_shape, 1)
    expected = getattr(F, name)(torch.from_numpy(x).double(), torch.from_numpy(w).double(), **attributes)
    np.testing.assert_array_equal(getattr(samebits, name)(x, w, **attributes), expected.float().numpy())


def test_a_bias_is_added_before_the_one_rounding():
    got = samebits.conv1d(np.float32([[[1.0]]]), np.float32([[[1.0]]]), np.float32([2.0**-24]))
    assert got[0, 0, 0] == 1.0
    got = samebits.conv1d(np.float32([[[1.0, 2.0**-24]]]), np.float32([[[1.0, 1.0]]]), np.float32([2.0**-24]))
    assert got[0, 0, 0] == np.float32(1 + 2.0**-23)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_torch_tensors_come_back_as_torch_tensors(dtype):
    x, w = torch.from_numpy(integers((1, 2, 5, 5))).to(dtype), torch.from_numpy(integers((3, 2, 3, 3))).to(dtype)
    got = samebits.conv2d(x, w)
    assert isinstance(got, torch.Tensor)
    assert got.dtype == dtype
    assert torch.equal(got.double(), F.conv2d(x.double(), w.double()).to(dtype).double())


@pytest.mark.parametrize("name", ["x", "w", "bias"])
def test_a_gradient_is_refused_and_never_lost_silently(name):
    operands = {"x": torch.ones(1, 2, 5, 5), "w": torch.ones(3, 2, 3, 3), "bias": torch.ones(3)}
    operands[name].requires_grad_()
    with pytest.raises(OperandError, match=rf"{name} requires a gradient, and samebits.conv2d passes none on"):
        samebits.conv2d(**operands)
    with pytest.raises(OperandError, match=r"samebits\.linear"):
        samebits.linear(torch.ones(2, 3, requires_grad=True), torch.ones(4, 3))
    with torch.no_grad():
        assert samebits.conv2d(**operands)[0, 0, 0, 0] == 19


def test_jax_arrays_come_back_as_jax_arrays():
    jnp = pytest.importorskip("jax.numpy")
    got = samebits.conv2d(jnp.asarray(integers((1, 2, 5, 5))), jnp.asarray(integers((3, 2, 3, 3))))
    assert isinstance(got, jnp.ndarray)


def test_another_result_dtype_is_rounded_to_directly():
    # 1 + 2^-11 + 2^-40 lies just above a tie of float16; rounding to float32 first would make it the tie.
    x = np.float32([[[1.0, 2.0**-11, 2.0**-40]]])
    got = samebits.conv1d(x, np.ones((1, 1, 3), np.float32), dtype=np.float16)
    assert got.dtype == np.float16
    assert got[0, 0, 0] == np.float16(1 + 2.0**-10)
    assert samebits.conv1d(x, np.ones((1, 1, 3), np.float32), dtype="bfloat16").dtype == ml_dtypes.bfloat16


def test_an_unbatched_input_gives_an_unbatched_result():
    assert samebits.conv2d(integers((2, 5, 5)), integers((3, 2, 3, 3))).shape == (3, 3, 3)


def test_what_does_not_fit_is_said():
    with pytest.raises(ProblemShapeError, match="channels"):
        samebits.conv2d(integers((1, 3, 5, 5)), integers((3, 2, 3, 3)))
    with pytest.raises(OperandError, match="int64"):
        samebits.conv1d(np.ones((1, 1, 3), np.int64), np.ones((1, 1, 3), np.int64))
    with pytest.raises(OperandError, match="dtype float64"):
        samebits.conv1d(np.ones((1, 1, 3), np.float32), np.ones((1, 1, 3)))
    with pytest.raises(ProblemShapeError, match="stride"):
        samebits.conv1d(integers((1, 1, 9)), integers((1, 1, 3)), stride=(1, 2))


def test_views_of_every_kind_give_the_same_as_their_copies():
    x, w = integers((2, 4, 9, 8)), integers((6, 4, 3, 2), 1)
    expected = samebits.conv2d(x, w)
    padded = np.zeros((2, 4, 18, 24), np.float32)
    padded[:, :, ::2, ::3] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    views = {
        "Fortran order": np.asfortranarray(x),
        "strided": padded[:, :, ::2, ::3],
        "negative strides": np.ascontiguousarray(x[:, :, ::-1, ::-1])[:, :, ::-1, ::-1],
        "read-only": read_only,
        "big-endian": x.astype(">f4"),
        "unaligned": unaligned,
        "transposed torch": torch.from_numpy(np.ascontiguousarray(x.transpose(0, 2, 3, 1))).permute(0, 3, 1, 2),
    }
    for name, view in views.items():
        np.testing.assert_array_equal(np.asarray(samebits.conv2d(view, w)), expected, err_msg=name)


def test_numpy_integers_are_numbers_and_other_things_are_refused():
    x, w = integers((1, 2, 9)), integers((3, 2, 3))
    assert samebits.conv1d(x, w, stride=np.int64(2)).shape == (1, 3, 4)
    for wrong in ({"stride": None}, {"stride": 1.0}, {"groups": "1"}, {"padding": None}, {"padding": "full"}):
        with pytest.raises(ProblemShapeError):
            samebits.conv1d(x, w, **wrong)
    with pytest.raises(SamebitsError):
        samebits.conv1d(x, w[0], padding="same")
    with pytest.raises(ResourceLimitError):
        samebits.conv_transpose1d(x, integers((2, 3, 3)), stride=2**39)


def test_torch_float8_comes_back_as_torch_float8():
    x = torch.from_numpy(integers((1, 2, 5))).to(torch.float8_e4m3fn)
    got = samebits.conv1d(x, torch.ones((1, 2, 1)).to(torch.float8_e4m3fn))
    assert got.dtype == torch.float8_e4m3fn


@pytest.mark.parametrize("batch", [0, 1])
def test_a_result_beyond_all_memory_is_refused(batch):
    x, w = np.ones((batch, 1, 4, 4), np.float32), np.ones((1, 1, 1, 1), np.float32)
    with pytest.raises(ResourceLimitError, match="does not fit"):
        samebits.conv2d(x, w, padding=2**40)


@pytest.mark.parametrize("dtype", ["datetime64[s]", "f4,f4", "U1"])
@pytest.mark.parametrize("batch", [0, 1])
def test_arrays_of_other_things_than_numbers_are_refused_even_where_there_are_none(batch, dtype):
    with pytest.raises(OperandError, match="is not supported"):
        samebits.conv1d(np.zeros((batch, 1, 4), dtype), np.ones((1, 1, 1), np.float32))


@pytest.mark.needs("torch")
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "float32"])
def test_every_number_reaches_torch_and_comes_back_bit_for_bit(dtype):
    """All numbers of a format (and NaN, which has one code) times one, in and out of torch."""
    torch = pytest.importorskip("torch")
    own = numpy_dtype(dtype)
    count = 2 ** (8 * min(own.itemsize, 2))
    codes = np.arange(count, dtype=np.uint32) << (16 if own.itemsize == 4 else 0)
    numbers = codes.astype(f"uint{8 * own.itemsize}").view(own).reshape(1, 1, -1)
    one = np.ones((1, 1, 1), own)
    bits = torch.uint8 if own.itemsize == 1 else torch.int16 if own.itemsize == 2 else torch.int32
    signed = np.dtype(f"{'u' if own.itemsize == 1 else ''}int{8 * own.itemsize}")

    def send(array):
        return torch.from_numpy(array.view(signed)).view(getattr(torch, dtype))

    got = samebits.conv1d(send(numbers), send(one))
    assert got.dtype == getattr(torch, dtype)
    expected = samebits.conv1d(numbers, one)
    np.testing.assert_array_equal(got.view(bits).numpy(), expected.view(signed))
    finite = np.isfinite(numbers.astype(np.float32)) & (numbers.astype(np.float32) != 0)
    np.testing.assert_array_equal(got.view(bits).numpy()[finite], numbers.view(signed)[finite])
