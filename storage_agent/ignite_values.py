"""Values under text keys, got and put straight in the form of Ignite's thin client.

pyignite makes classes of ctypes for each value and each answer: a put costs it fifteen times as
much as this. Its connections are used all the same; whatever else is asked goes by its own way.
Source: Apache Ignite, binary client protocol, "Key-Value Queries" and "Standard Message Header".
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from pyignite.constants import RHF_ERROR, RHF_TOPOLOGY_CHANGED
from pyignite.exceptions import CacheError
from pyignite.queries import Query
from pyignite.queries.op_codes import (
    OP_CACHE_GET,
    OP_CACHE_GET_ALL,
    OP_CACHE_PUT,
    OP_CACHE_PUT_ALL,
    OP_CACHE_PUT_IF_ABSENT,
)

_HEAD = struct.Struct("<ihqib")
"""The length of what follows, what is asked, the request's number; the cache, and no flags."""

_ANSWER = struct.Struct("<iqh")
"""The length of what follows, the request's number, flags."""

_AFFINITY = struct.calcsize("<qi")
_INT = struct.Struct("<i")
_FIELD = struct.Struct("<bi")
_TEXT = 9
_BYTES = 12
_NOTHING = 101


async def get(cache: Any, key: str) -> bytes | str | None:
    """Return the value of ``key``, or None; raises ``CacheError``."""
    return _read(await _ask(cache, OP_CACHE_GET, _field(key)), 0)[0]


async def get_all(cache: Any, keys: Sequence[str]) -> dict[str, bytes | str]:
    """Return the values of those of ``keys`` that there are; raises ``CacheError``."""
    asked = b"".join((_INT.pack(len(keys)), *map(_field, keys)))
    answer = await _ask(cache, OP_CACHE_GET_ALL, asked)
    at = _INT.size
    found = {}
    for _ in range(_INT.unpack_from(answer)[0]):
        key, at = _read(answer, at)
        value, at = _read(answer, at)
        if isinstance(key, str) and value is not None:
            found[key] = value
    return found


async def put(cache: Any, key: str, value: bytes) -> None:
    """Store a value; raises ``CacheError``."""
    await _ask(cache, OP_CACHE_PUT, _field(key) + _field(value))


async def put_if_absent(cache: Any, key: str, value: bytes | str) -> bool:
    """Store a value unless ``key`` has one; returns whether it was; raises ``CacheError``."""
    return await _ask(cache, OP_CACHE_PUT_IF_ABSENT, _field(key) + _field(value)) == b"\1"


async def put_all(cache: Any, values: Mapping[str, bytes]) -> None:
    """Store several values, each by itself; raises ``CacheError``."""
    fields = (_field(each) for entry in values.items() for each in entry)
    await _ask(cache, OP_CACHE_PUT_ALL, b"".join((_INT.pack(len(values)), *fields)))


def _field(value: bytes | str) -> bytes:
    if isinstance(value, str):
        text = value.encode()
        return _FIELD.pack(_TEXT, len(text)) + text
    return _FIELD.pack(_BYTES, len(value)) + value


def _read(answer: bytes, at: int) -> tuple[bytes | str | None, int]:
    """Return the value that begins at a place, and the place after it."""
    if answer[at] == _NOTHING:
        return None, at + 1
    kind, size = _FIELD.unpack_from(answer, at)
    begin = at + _FIELD.size
    content = answer[begin : begin + size]
    if kind == _TEXT:
        return content.decode(), begin + size
    if kind == _BYTES:
        return content, begin + size
    raise CacheError(f"a value is neither bytes nor a text, but of type {kind}")


async def _ask(cache: Any, operation: int, content: bytes) -> bytes:
    number = Query(operation).query_id
    head = _HEAD.pack(_HEAD.size - _INT.size + len(content), operation, number, cache.cache_id, 0)
    node = await cache.client.random_node()
    answer = bytes(await node.request(number, head + content))
    _, _, flags = _ANSWER.unpack_from(answer)
    at = _ANSWER.size + (_AFFINITY if flags & RHF_TOPOLOGY_CHANGED else 0)
    if flags & RHF_ERROR:
        raise CacheError(answer[at + _INT.size + _FIELD.size :].decode(errors="replace"))
    return answer[at:]
