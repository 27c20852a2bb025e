"""Messages survive the trip bit for bit; what is no message is refused."""

import io

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engines.workers.transport import TransportError, receive_message, send_message


def trip(header, arrays):
    stream = io.BytesIO()
    send_message(stream, header, arrays)
    stream.seek(0)
    return receive_message(stream, 2**20)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_arrays_keep_their_bits(dtype):
    array = np.arange(256, dtype=np.uint8).repeat(8).view(dtype)
    header, arrays = trip({"a": 1}, {"x": array.reshape(2, -1)})
    assert header == {"a": 1}
    assert arrays["x"].dtype == dtype
    assert arrays["x"].tobytes() == array.tobytes()


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else_happens(data):
    with pytest.raises(TransportError):
        receive_message(io.BytesIO(data), 2**20)


@pytest.mark.parametrize(
    "described",
    ['[["x", "object", [1]]]', '[["x", "float32", [-1]]]', '[["x", "float32", [99999999]]]', '[["x"]]', "3"],
)
def test_an_array_that_lies_about_itself_is_refused(described):
    text = ('{"header": {}, "arrays": ' + described + "}").encode()
    with pytest.raises(TransportError):
        receive_message(io.BytesIO(len(text).to_bytes(8, "big") + text + b"\0" * 64), 2**20)
