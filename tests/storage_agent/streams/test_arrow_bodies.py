"""Bodies with an Arrow IPC stream: all rows of a body are read, or the body is refused."""

import pyarrow as pa
import pytest

from mistbow.errors import InvalidRequestError
from mistbow.streams.wire import encode_rows
from storage_agent.http.streams import decode_table

ROWS = pa.table({"ts": pa.array([1, 2], pa.int64()), "x": pa.array(["a", "b"]).dictionary_encode()})
BODY = encode_rows(ROWS)
END = bytes.fromhex("ffffffff00000000")


def test_stream_may_lack_its_end() -> None:
    assert BODY.endswith(END)
    for body in (BODY, BODY.removesuffix(END)):
        assert decode_table(body).num_rows == 2


@pytest.mark.parametrize("more", [BODY, b"x", END], ids=["stream", "byte", "end"])
def test_bytes_after_a_stream_are_refused(more: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=f"{len(more)} bytes after the end"):
        decode_table(BODY + more)
