"""Columns with time zones, and with times beyond those of Python: created, and read as JSON."""

from typing import Any

import pyarrow as pa
import pytest

from mistbow.clock import system_clock
from mistbow.errors import InvalidRequestError
from storage_agent.ignite.client import IgniteClient
from storage_agent.streams.json_values import encode, objects
from storage_agent.streams.streams import REPLICA_PREFIX, Streams

UNKNOWN = pa.timestamp("s", "Nowhere/X")
NO_PYTHON_TIME = 2**50
NESTED = [
    lambda kind: kind,
    lambda kind: pa.list_(kind),
    lambda kind: pa.large_list(kind),
    lambda kind: pa.list_(kind, 1),
    lambda kind: pa.struct([("at", kind), ("n", pa.int8())]),
    lambda kind: pa.map_(pa.string(), kind),
    lambda kind: pa.list_(pa.struct([("at", kind)])),
    lambda kind: pa.opaque(kind, "t", "v"),
    lambda kind: pa.opaque(pa.struct([("at", kind)]), "t", "v"),
]


class AcceptedError(Exception):
    """Raised by the streams of these tests instead of the creation of a stream."""


async def create(name: str, *kinds: pa.DataType) -> None:
    """Create a stream with a column for each type, up to the first access to Ignite."""

    def check(_: str) -> None:
        raise AcceptedError

    streams = Streams(IgniteClient([("127.0.0.1", 1)]), system_clock, 0, check=check)
    await streams.create(name, pa.schema([(f"c{at}", kind) for at, kind in enumerate(kinds)]))


def value(kind: pa.DataType, time: int) -> Any:
    """Return a value of a nested type, with the same time in all places."""
    match kind:
        case pa.StructType():
            return {field.name: value(field.type, time) for field in kind}
        case pa.MapType():
            return [("k", value(kind.item_type, time))]
        case pa.ListType() | pa.LargeListType() | pa.FixedSizeListType():
            return [value(kind.value_type, time)]
        case pa.BaseExtensionType():
            return value(kind.storage_type, time)
    return 7 if kind == pa.int8() else time


def read(kind: pa.DataType, time: int) -> str:
    column = pa.array([value(kind, time), None], kind)
    return encode(objects(pa.RecordBatch.from_arrays([column], names=["c"]))).decode()


@pytest.mark.parametrize("nested", NESTED)
async def test_create_rejects_unknown_time_zone(nested: Any) -> None:
    with pytest.raises(InvalidRequestError, match="field c1 has the unknown time zone 'Nowhere/X'"):
        await create("s", pa.int64(), nested(UNKNOWN))


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "+02:00"])
async def test_create_accepts_known_time_zones(zone: str | None) -> None:
    with pytest.raises(AcceptedError):
        await create("s", pa.timestamp("ns", zone), pa.list_(pa.timestamp("s", zone)))


async def test_create_accepts_replica_with_unknown_time_zone() -> None:
    with pytest.raises(AcceptedError):
        await create(f"{REPLICA_PREFIX}site/s", UNKNOWN)


@pytest.mark.parametrize("nested", NESTED)
def test_times_of_unknown_zone_are_read_in_utc(nested: Any) -> None:
    text = read(nested(UNKNOWN), 1)
    assert '"1970-01-01T00:00:01Z"' in text
    assert '{"c":null}' in text


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "utc", "Nowhere/X"])
def test_times_beyond_those_of_python_are_read_as_text(nested: Any, zone: str | None) -> None:
    text = read(nested(pa.timestamp("s", zone)), NO_PYTHON_TIME)
    expected = "out of range" if zone is None else "309237645330:57:04"
    assert expected.replace("330:", "331:") in text if zone == "Europe/Berlin" else expected in text
