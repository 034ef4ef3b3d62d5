"""Cursors: opaque tokens by which a client requests the next page of an answer.

The items of an answer have a fixed order: by site, series and time. A cursor contains the last item
of a page, and the next page begins after this item. If items are stored or deleted between two
pages, no other item is repeated or skipped.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from mistbow.client.fields import MAX_TIMESTAMP_MS
from mistbow.errors import InvalidRequestError
from storage_agent.http.points import PagedBody

_DIGEST_BYTES = 8
_Time = Annotated[int, Meta(ge=0, le=MAX_TIMESTAMP_MS)]


class PageKey(msgspec.Struct, frozen=True, array_like=True):
    """The last item of a page.

    ``series``: (metric, entity); None: the page ends with the last item of the site. ``ts``: the
    time (ms) of the last point; None: the items are series.
    """

    site: str
    series: tuple[str, str] | None = None
    ts: _Time | None = None


_KEY = msgspec.msgpack.Decoder(PageKey)


def encode_cursor(key: PageKey, path: str, body: PagedBody) -> str:
    """Return the cursor after an item of the answer to a request with a path and a body."""
    payload = _fingerprint(path, body) + msgspec.msgpack.encode(key)
    return urlsafe_b64encode(_digest(payload) + payload).rstrip(b"=").decode()


def decode_cursor(path: str, body: PagedBody) -> PageKey | None:
    """Return the last item of the previous page; None: the body has no cursor.

    Raises ``InvalidRequestError`` if the cursor is damaged, belongs to another request, or is sent
    without a limit.
    """
    if body.cursor is None:
        return None
    if body.limit is None:
        raise InvalidRequestError(
            "cursor: the limit of the page is missing", hint="Send limit, the size of a page, too."
        )
    try:
        data = urlsafe_b64decode(body.cursor + "=" * (-len(body.cursor) % 4))
        digest, payload = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if digest != _digest(payload):
            raise _invalid("the cursor is damaged")
        if payload[:_DIGEST_BYTES] != _fingerprint(path, body):
            raise _invalid("the cursor belongs to another request")
        return _KEY.decode(payload[_DIGEST_BYTES:])
    except (binascii.Error, ValueError, msgspec.MsgspecError) as error:
        raise _invalid("the cursor is damaged") from error


def _fingerprint(path: str, body: PagedBody) -> bytes:
    """Return a hash of the fields of a request that must be equal for all pages of an answer."""
    same = msgspec.structs.asdict(msgspec.structs.replace(body, limit=None, cursor=None))
    # Without absent fields, since an agent of another version may have more fields.
    given = {name: value for name, value in same.items() if value is not None}
    return _digest(path.encode() + msgspec.json.encode(given, order="deterministic"))


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


def _invalid(problem: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"cursor: {problem}",
        hint="Send `next` of the previous answer unchanged, with the same path and the same "
        "fields; only limit may differ. Without cursor, the first page is read.",
    )
