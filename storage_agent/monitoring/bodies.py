"""The JSON bodies of the monitoring API, read strictly, and errors that say where."""

import json
import math
import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from mistbow.errors import InvalidRequestError

B = TypeVar("B")

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999."""

_DEEPEST = 32
_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')
"""A bracket, or a text, in which there may be some."""

_MOST_HOLD_MS = 366 * 86_400_000
_FINITE = Meta(ge=-1.7976931348623157e308, le=1.7976931348623157e308)
Id = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(max_length=4096)]
Finite = Annotated[float, _FINITE]
Millis = (
    Annotated[int, Meta(ge=0, le=LATEST_MS)] | Annotated[float, Meta(ge=0, le=float(LATEST_MS))]
)
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Some = Annotated[frozenset[str], Meta(max_length=10_000)] | str | None
Label = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | Finite | bool | Text


class Pod(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pod that an entity runs in."""

    uuid: Text | None = None
    name: Text | None = None
    namespace: Text | None = None


class Container(msgspec.Struct, frozen=True, omit_defaults=True):
    """The container that an entity runs in."""

    id: Text | None = None
    name: Text | None = None


class Measurement(msgspec.Struct, frozen=True):
    """One item of a /put: a value, and what is known of its metric and its entity."""

    entityID: Id  # noqa: N815
    metricID: Id  # noqa: N815
    val: Finite
    timestamp: Millis
    entityType: Text | None = None  # noqa: N815
    name: Text | None = None
    units: Text | None = None
    desc: Text | None = None
    group: Text | None = None
    minVal: Finite | None = None  # noqa: N815
    maxVal: Finite | None = None  # noqa: N815
    higherIsBetter: bool | None = None  # noqa: N815
    pod: Pod | None = None
    container: Container | None = None
    labels: Annotated[dict[Id, Label], Meta(max_length=64)] | None = None


class PutBody(msgspec.Struct, frozen=True):
    """The body of a /put."""

    monitoring: list[Measurement]


class GetBody(msgspec.Struct, frozen=True, rename={"start": "from", "end": "to"}):
    """The body of a /get: filters, each a list or one value, and times, inclusive.

    ``max_stale_ms``: a replica that is near and no older will do.
    """

    metricID: Some = None  # noqa: N815
    entityID: Some = None  # noqa: N815
    entityType: Some = None  # noqa: N815
    groupName: Some = None  # noqa: N815
    podName: Some = None  # noqa: N815
    podNamespace: Some = None  # noqa: N815
    containerName: Some = None  # noqa: N815
    nodes: Some = None
    start: Millis | None = None
    end: Millis | None = None
    latest: bool | None = None
    max_stale_ms: Count | None = None


class QueryBody(GetBody, frozen=True, kw_only=True):
    """The body of a /query: as of a /get, and what to make of the values."""

    agg: Literal["sum", "max", "min", "avg"]


class ListBody(GetBody, frozen=True, kw_only=True):
    """The body of a /list: filters as of a /get, and the names of the fields that are wanted."""

    fields: Some = None


class AdvanceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a stream's writer moves its frontier, and what it notes; null removes a note."""

    epoch: Count | None = None
    frontier: Count | None = None
    attributes: Annotated[dict[str, Any], Meta(max_length=1000)] = {}


class HoldBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who needs rows of a stream for how long after they came, and until when that holds.

    ``metrics``: of which metrics, where the rows are points; none: of all.
    """

    holder: Id
    keep_ms: Annotated[int, Meta(ge=1, le=_MOST_HOLD_MS)]
    for_ms: Annotated[int, Meta(ge=1, le=_MOST_HOLD_MS)]
    metrics: Annotated[tuple[Id, ...], Meta(max_length=1000)] = ()


def check_notes(attributes: dict[str, Any]) -> None:
    """Refuse what JSON can say and a stream cannot keep: integers that are too large."""
    waiting: list[Any] = [attributes]
    while waiting:
        item = waiting.pop()
        if isinstance(item, int) and not -(2**63) <= item < 2**63:
            raise _invalid("attributes", "an integer takes 64 bits at most")
        if isinstance(item, dict | list):
            waiting += item.values() if isinstance(item, dict) else item


def check_depth(text: str, where: str, most: int | None = None) -> None:
    """Refuse JSON that is nested more deeply than all that read it later can take.

    >>> check_depth('["[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["]', "val")
    """
    most = _DEEPEST if most is None else most
    if text.count("[") + text.count("{") <= most:
        return  # as nearly all is
    depth = 0
    for found in _BRACKET.finditer(text):
        match found[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
        if depth > most:
            raise _invalid(where, f"it is nested too deeply: more than {most} levels")


def check_deletion_bounds(nodes: Some, latest: bool | None) -> None:
    """Refuse what a read takes and a deletion does not keep to: it would be of more."""
    if nodes is not None:
        raise InvalidRequestError(
            "nodes: a deletion is at one site", hint="Name another one by ?site=NAME."
        )
    if latest:
        raise InvalidRequestError(
            "latest: a deletion is of all times, or of those that from and to say",
            hint="/get tells the time of the latest value: name it by from and to.",
        )


def read_body(decoder: msgspec.json.Decoder[B], body: bytes) -> B:
    """Decode a body; raises ``InvalidRequestError`` that says which item is wrong, and why."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise _invalid(where.rstrip("`").lstrip("."), what) from error
    except RecursionError as error:
        raise _invalid("", "it is nested too deeply") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        where, what = _blame(body)
        raise _invalid(where, what or str(error)) from error


def whole(value: float, where: str) -> int:
    """Return a time as an integer; raises ``InvalidRequestError`` if it is none."""
    if isinstance(value, float) and not value.is_integer():
        raise _invalid(where, f"Expected `int`, got {value}")
    return int(value)


def inline_schema(body: type) -> dict[str, Any]:
    """Return the JSON schema of a body without references, for OpenAPI."""
    schema = msgspec.json.schema(body)
    definitions = schema.pop("$defs")

    def inlined(part: Any) -> Any:
        if isinstance(part, list):
            return [inlined(item) for item in part]
        if not isinstance(part, dict):
            return part
        if "$ref" in part:
            return inlined(definitions[part["$ref"].rpartition("/")[2]])
        return {name: inlined(item) for name, item in part.items()}

    resolved: dict[str, Any] = inlined(schema)
    return resolved


def _invalid(where: str, what: str) -> InvalidRequestError:
    hint = "The service's /docs shows what this request takes."
    return InvalidRequestError(f"{where}: {what}" if where else what, hint=hint)


def _blame(body: bytes) -> tuple[str, str]:
    """Find what makes a body malformed, if Python's more lenient parser can tell where it is."""
    try:
        parsed = json.loads(body.decode(errors="surrogateescape"))
    except (ValueError, RecursionError):
        return "", ""
    return _odd(parsed, "") or ("", "")


def _odd(value: Any, where: str) -> tuple[str, str] | None:
    if isinstance(value, float) and not math.isfinite(value):
        return where, f"{value} is not a number in JSON"
    if isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        return where, "it is not valid Unicode"
    if isinstance(value, dict):
        for name, item in value.items():
            found = _odd(name, where) or _odd(item, f"{where}.{name}".lstrip("."))
            if found:
                return found
    if isinstance(value, list):
        for number, item in enumerate(value):
            if found := _odd(item, f"{where}[{number}]"):
                return found
    return None
