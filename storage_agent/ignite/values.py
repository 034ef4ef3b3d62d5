"""Reads and writes values by key; encodes the requests of Ignite's thin-client protocol itself.

pyignite creates ctypes classes for each value and each response, which makes a put fifteen times
slower. This module uses pyignite's connections; other operations use pyignite itself.

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

_REQUEST = struct.Struct("<ihqib")
"""The header of a request: length of the remaining bytes, operation, id, cache, flags (0)."""

_RESPONSE = struct.Struct("<iqh")
"""The header of a response: length of the remaining bytes, id of the request, flags."""

_AFFINITY = struct.calcsize("<qi")
_INT = struct.Struct("<i")
_FIELD = struct.Struct("<bi")
_TEXT = 9
_BYTES = 12
_NOTHING = 101


async def get(cache: Any, key: str) -> bytes | str | None:
    """Return the value of ``key``, or None if the key has no value; raises ``CacheError``."""
    return _read(await _request(cache, OP_CACHE_GET, _field(key)), 0)[0]


async def get_all(cache: Any, keys: Sequence[str]) -> dict[str, bytes | str]:
    """Return key -> value for the ``keys`` that have a value; raises ``CacheError``."""
    content = b"".join((_INT.pack(len(keys)), *map(_field, keys)))
    answer = await _request(cache, OP_CACHE_GET_ALL, content)
    at = _INT.size
    found = {}
    for _ in range(_INT.unpack_from(answer)[0]):
        key, at = _read(answer, at)
        value, at = _read(answer, at)
        if isinstance(key, str) and value is not None:
            found[key] = value
    return found


async def put(cache: Any, key: str, value: bytes) -> None:
    """Store a value under a key; raises ``CacheError``."""
    await _request(cache, OP_CACHE_PUT, _field(key) + _field(value))


async def put_if_absent(cache: Any, key: str, value: bytes | str) -> bool:
    """Store ``value`` if ``key`` has no value; return whether ``value`` was stored.

    Raises ``CacheError``.
    """
    return await _request(cache, OP_CACHE_PUT_IF_ABSENT, _field(key) + _field(value)) == b"\1"


async def put_all(cache: Any, values: Mapping[str, bytes]) -> None:
    """Store several values, as key -> value; raises ``CacheError``.

    The operation is not atomic: after an error, some of the values may be stored.
    """
    fields = (_field(each) for entry in values.items() for each in entry)
    await _request(cache, OP_CACHE_PUT_ALL, b"".join((_INT.pack(len(values)), *fields)))


def _field(value: bytes | str) -> bytes:
    if isinstance(value, str):
        text = value.encode()
        return _FIELD.pack(_TEXT, len(text)) + text
    return _FIELD.pack(_BYTES, len(value)) + value


def _read(answer: bytes, at: int) -> tuple[bytes | str | None, int]:
    """Return the value at the offset ``at`` in a response, and the offset after the value."""
    if answer[at] == _NOTHING:
        return None, at + 1
    kind, size = _FIELD.unpack_from(answer, at)
    begin = at + _FIELD.size
    content = answer[begin : begin + size]
    if kind == _TEXT:
        return content.decode(), begin + size
    if kind == _BYTES:
        return content, begin + size
    raise CacheError(f"Ignite returned a value of the type {kind}, neither bytes nor text")


async def _request(cache: Any, operation: int, content: bytes) -> bytes:
    number = Query(operation).query_id
    head = _REQUEST.pack(
        _REQUEST.size - _INT.size + len(content), operation, number, cache.cache_id, 0
    )
    node = await cache.client.random_node()
    answer = bytes(await node.request(number, head + content))
    _, _, flags = _RESPONSE.unpack_from(answer)
    at = _RESPONSE.size + (_AFFINITY if flags & RHF_TOPOLOGY_CHANGED else 0)
    if flags & RHF_ERROR:
        raise CacheError(answer[at + _INT.size + _FIELD.size :].decode(errors="replace"))
    return answer[at:]
