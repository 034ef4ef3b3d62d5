"""Bodies with points, for each way in; all points are live and different."""

import itertools
import time
from collections.abc import Callable, Iterator

import cramjam
import msgspec

from benchmarks.ingestion.wrk import Way
from benchmarks.storage.storage_site import item
from storage_agent.ingest.protocol import remote_v1_pb2 as v1

_SERIES = 1000

PUT = Way("/put", {"Content-Type": "application/json"})
LINE_PROTOCOL = Way("/write?precision=ms", {"Content-Type": "text/plain"})
REMOTE_WRITE = Way(
    "/api/v1/write", {"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
)

_numbers = itertools.count()
_Numbered = tuple[int, int]
"""The number of a point and its time (ms)."""


def put_bodies(count: int, points: int) -> Iterator[bytes]:
    """Yield ``count`` bodies of /put with ``points`` points each."""

    def body(numbered: list[_Numbered]) -> bytes:
        # With all metadata: RAINBOW's storage reads no series with incomplete metadata.
        more = {"desc": "a load", "minVal": 0, "maxVal": 100, "higherIsBetter": False}
        items = [item(n % _SERIES, at, n % 997 / 10) | more for n, at in numbered]
        return msgspec.json.encode({"monitoring": items})

    return _bodies(count, points, body)


def line_bodies(count: int, points: int) -> Iterator[bytes]:
    """Yield ``count`` bodies of the line protocol with ``points`` lines of one field each."""

    def body(numbered: list[_Numbered]) -> bytes:
        lines = (
            f"host,host=node-{n % _SERIES // 10} metric{n % 10}={n % 997 / 10} {at}\n"
            for n, at in numbered
        )
        return "".join(lines).encode()

    return _bodies(count, points, body)


def remote_write_bodies(count: int, points: int) -> Iterator[bytes]:
    """Yield ``count`` bodies of remote write 1.0 with ``points`` series of one sample each."""

    def body(numbered: list[_Numbered]) -> bytes:
        series = [
            v1.TimeSeries(
                labels=[
                    v1.Label(name="__name__", value=f"metric_{n % 10}"),
                    v1.Label(name="instance", value=f"node-{n % _SERIES // 10}:9100"),
                    v1.Label(name="job", value="node"),
                ],
                samples=[v1.Sample(value=n % 997 / 10, timestamp=at)],
            )
            for n, at in numbered
        ]
        message = v1.Request(timeseries=series)
        return bytes(cramjam.snappy.compress_raw(message.SerializeToString()))

    return _bodies(count, points, body)


def _bodies(count: int, points: int, body: Callable[[list[_Numbered]], bytes]) -> Iterator[bytes]:
    now = time.time_ns() // 1_000_000
    for _ in range(count):
        numbers = itertools.islice(_numbers, points)
        # One value a ms of each series, and never ahead of the clock.
        yield body([(n, now - 60_000 + n // _SERIES % 60_000) for n in numbers])
