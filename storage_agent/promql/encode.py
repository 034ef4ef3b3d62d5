"""The encoding of long JSON lists, in chunks."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

Chunks = list[bytes]
"""JSON in chunks. The chunks of a large answer are sent one by one, without a copy of the whole."""

_ITEMS = 500
"""The number of items that are encoded at once; between two encodings, other threads can run."""


def encode_items(items: Iterable[Any]) -> Chunks:
    """Return a JSON list of items.

    >>> encode_items(range(3))
    [b'[', b'0,1,2', b']']
    """
    chunks = [b"["]
    left = iter(items)
    while some := list(islice(left, _ITEMS)):
        if len(chunks) > 1:
            chunks.append(b",")
        chunks.append(msgspec.json.encode(some)[1:-1])
    return [*chunks, b"]"]
