"""Putting values of bytes under text keys, written straight in the form of Ignite's thin client.

pyignite makes classes of ctypes for each value and each answer: a put costs it fifteen times as
much as this. Its connections are used all the same; whatever else is asked goes by its own way.
Source: Apache Ignite, binary client protocol, "Key-Value Queries" and "Standard Message Header".
"""

import struct
from collections.abc import Mapping
from typing import Any

from pyignite.constants import RHF_ERROR, RHF_TOPOLOGY_CHANGED
from pyignite.exceptions import CacheError
from pyignite.queries import Query
from pyignite.queries.op_codes import OP_CACHE_PUT_ALL, OP_CACHE_PUT_IF_ABSENT

_HEAD = struct.Struct("<ihqib")
"""The length of what follows, what is asked, the request's number; the cache, and no flags."""

_ANSWER = struct.Struct("<iqh")
"""The length of what follows, the request's number, flags."""

_AFFINITY = struct.calcsize("<qi")
_INT = struct.Struct("<i")
_FIELD = struct.Struct("<bi")
_TEXT = 9
_BYTES = 12


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
