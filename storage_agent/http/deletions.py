"""Decodes and checks the bodies of deletions; a part of a body without effect is an error."""

import difflib
import json
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from fastapi import Request

from mistbow.client.fields import Names
from mistbow.errors import InvalidRequestError
from mistbow.http.field_conversion import convert_filters
from mistbow.http.parameters import reject_unknown_parameters
from mistbow.timestamps import Timestamps
from storage_agent.http.decode import decode_beside, decode_body, decode_fields
from storage_agent.http.points import GetBody
from storage_agent.http.timed_bodies import decode_timed

B = TypeVar("B", bound=msgspec.Struct)

_NEAR_MISSES = {
    "group": "groupName",
    "job": "groupName",
    "metric": "metricID",
    "metrics": "metricID",
    "name": "metricID",
    "entity": "entityID",
    "entities": "entityID",
    "instance": "entityID",
    "pod": "podName",
    "namespace": "podNamespace",
    "container": "containerName",
    "start": "from",
    "since": "from",
    "begin": "from",
    "end": "to",
    "until": "to",
    "keys": "key",
}
"""Wrong names of fields, in lower case -> the name of the field that a client may mean."""

_READS_ONLY = ("nodes", "latest", "max_stale_ms")
"""Fields that no hint names, because deletions refuse them."""

_PARAMETERS = ("site", "dry_run")
_FALSE = ("0", "false", "no", "off")
_TRUE = ("", "1", "true", "yes", "on")


class DeleteBody(GetBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a deletion of points: the selectors of a /get, and a time range."""


async def read_deletion(decoder: msgspec.json.Decoder[B], body: bytes, timestamps: Timestamps) -> B:
    """Return the same as ``decode_deletion``; a large body is decoded in a thread."""
    return await decode_beside(len(body), lambda: decode_deletion(decoder, body, timestamps))


def decode_deletion(decoder: msgspec.json.Decoder[B], body: bytes, timestamps: Timestamps) -> B:
    """Return the decoded body of a deletion.

    Raises ``InvalidRequestError`` for an unknown or repeated field, an empty list, an empty text
    and null: if such a part were ignored, more would be deleted than intended.
    """
    fields = decode_fields(body)
    if fields is None:
        return decode_body(decoder, body)
    _check_fields(fields, [each.encode_name for each in msgspec.structs.fields(decoder.type)])
    decoded = decode_timed(decoder, body, timestamps, convert_filters)
    json.loads(body, object_pairs_hook=_check_repeated)
    return decoded


def check_deletion(body: DeleteBody) -> None:
    """Raise ``InvalidRequestError`` if a deletion has no selector, or a field of reads only.

    The fields of reads only are ``nodes``, ``latest`` and ``max_stale_ms``.
    """
    selectors = (
        *(body.metricID, body.entityID, body.entityType, body.groupName),
        *(body.podName, body.podNamespace, body.containerName),
    )
    if not any(selectors):
        raise InvalidRequestError(
            "a deletion needs at least one selector", hint='For example {"metricID": ["cpu"]}.'
        )
    check_deletion_scope(body.nodes, body.latest)
    if body.max_stale_ms is not None:
        raise InvalidRequestError(
            "max_stale_ms: a deletion reads no replicas", hint="Omit this field."
        )


def check_deletion_scope(nodes: Names, latest: bool | None) -> None:
    """Raise ``InvalidRequestError`` if a deletion sets ``nodes`` or ``latest``.

    Both fields are only for reads.
    """
    if nodes is not None:
        raise InvalidRequestError(
            "nodes: a deletion applies to a single site",
            hint="Name the site by ?site=NAME instead.",
        )
    if latest:
        raise InvalidRequestError(
            "latest: a deletion cannot select the latest value",
            hint="Read the timestamp by /get, and send it as both from and to.",
        )


def is_dry_run(request: Request) -> bool:
    """Return whether the URL parameter ``dry_run`` of a deletion is true.

    Raises ``InvalidRequestError`` if the parameter is neither true nor false, or if the URL has an
    unknown parameter.
    """
    reject_unknown_parameters(request, _PARAMETERS)
    values = request.query_params.getlist("dry_run")
    for value in values:
        if value.lower() not in (*_TRUE, *_FALSE):
            raise InvalidRequestError(
                f"dry_run: {value[:40]!r} is neither true nor false", hint="Send ?dry_run=true."
            )
    return any(value.lower() in _TRUE for value in values)


def _check_fields(fields: Mapping[str, Any], known: Collection[str]) -> None:
    for name, value in fields.items():
        if name not in known:
            fit = [each for each in known if each not in _READS_ONLY]
            hint = _suggest(name, fit, _NEAR_MISSES)
            if name in _PARAMETERS:
                hint = f"Send it in the URL: ?{name}=…"
            raise InvalidRequestError(
                f"{name[:40]}: a deletion has no such field, and nothing was deleted",
                hint=hint or f"It has {', '.join(fit)}.",
            )
        if value in (None, [], ""):
            raise InvalidRequestError(
                f"{name}: {msgspec.json.encode(value).decode()} selects nothing",
                hint="Omit the field, or name what to delete.",
            )


def _check_repeated(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise InvalidRequestError(
                f"{name}: the field is repeated, and nothing was deleted",
                hint="Send each field once; a list names several values.",
            )
        names.add(name)


def _suggest(name: str, known: Collection[str], near_misses: Mapping[str, str]) -> str | None:
    by_plain = {_plain(each): each for each in known}
    meant = near_misses.get(_plain(name))
    if meant not in known:
        close = difflib.get_close_matches(_plain(name), by_plain, 1)
        meant = by_plain[close[0]] if close else None
    return f"Did you mean {meant}?" if meant else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
