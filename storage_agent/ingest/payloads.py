"""The parsing of MQTT messages.

The payload is a number, which may be sent as a text, an object with the fields of a point in a
/put, or a list of such objects.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mistbow.client.agent_model import Point
from mistbow.errors import InvalidRequestError
from mistbow.http.field_conversion import convert_items
from mistbow.timestamps import Timestamps
from storage_agent.http.decode import to_integer
from storage_agent.mqtt_topics import TopicTemplate

_LABEL_PREFIX = "labels."
_OBJECTS_OF_POINT = 4
"""The maximum number of objects in a point: itself, its labels, pod and container."""


class BadMessageError(Exception):
    """Raised if a message cannot be stored.

    ``reason``: the value of the label ``reason`` in the agent's metrics.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class MessagePoints:
    """The points of a message.

    ``timed``: whether the message has a timestamp for each point. ``rejected``: an error for each
    object of the message that is no valid point.
    """

    points: list[Point]
    timed: bool
    rejected: Sequence[BadMessageError] = ()


def parse_message(
    topic: str,
    payload: bytes,
    templates: Sequence[TopicTemplate],
    now: int,
    timestamps: Timestamps = Timestamps(),
    max_points: int = 100_000,
    accepts_attributes: Callable[[Point], bool] = lambda _: True,
) -> MessagePoints:
    """Return the points of a message; points without a timestamp get the timestamp ``now`` (ms).

    ``templates``: determine the fields of points that a topic contains. ``timestamps``: reads the
    timestamps in the payload. Raises ``BadMessageError`` for a message without a valid point; the
    errors do not quote the payload. ``max_points``: the maximum number of points of a message.
    ``accepts_attributes``: returns whether the size of a point's attributes is allowed.
    """
    fields = _topic_fields(topic, templates)
    if payload.count(b"{") + payload.count(b"[") > _OBJECTS_OF_POINT * max_points + 1:
        raise _too_many(max_points)
    try:
        content = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadMessageError("payload", "the payload is not JSON") from None
    # A bare number or text is a value, as ``val`` of a /put.
    if isinstance(content, int | float | str) and not isinstance(content, bool):
        content = {"val": content}
    items = content if isinstance(content, list) else [content]
    if len(items) > max_points:
        raise _too_many(max_points)
    timed = all(isinstance(item, dict) and "timestamp" in item for item in items)
    points, rejected = [], []
    for item in items:
        try:
            point = _point(item, fields, now, timestamps)
            if not accepts_attributes(point):
                raise BadMessageError("payload", "the labels are too large")
            points.append(point)
        except BadMessageError as error:
            rejected.append(error)
    if rejected and not points:
        raise rejected[0]
    return MessagePoints(points, timed, rejected)


def _too_many(max_points: int) -> BadMessageError:
    return BadMessageError("payload", f"the payload has more than {max_points} points")


def _topic_fields(topic: str, templates: Sequence[TopicTemplate]) -> Mapping[str, Any]:
    for template in templates:
        found = template.read(topic)
        if found is not None:
            labels = {
                name.removeprefix(_LABEL_PREFIX): value
                for name, value in found.items()
                if name.startswith(_LABEL_PREFIX)
            }
            fields = {name: v for name, v in found.items() if not name.startswith(_LABEL_PREFIX)}
            return {**fields, "labels": labels} if labels else fields
    raise BadMessageError("topic", "no template matches this topic")


def _point(item: object, fields: Mapping[str, Any], now: int, timestamps: Timestamps) -> Point:
    if not isinstance(item, dict):
        raise BadMessageError(
            "payload", "the payload is not a number, an object, or a list of objects"
        )
    try:
        [read] = timestamps.read_fields(convert_items({"payload": [item]}))["payload"]
    except InvalidRequestError as error:
        raise BadMessageError("time", error.text) from None
    combined = {"timestamp": now, **read}
    for name, value in fields.items():
        combined[name] = _combine(name, read.get(name), value)
    try:
        point = msgspec.convert(combined, Point)
    except msgspec.ValidationError as error:
        raise BadMessageError("payload", str(error)) from None
    if isinstance(point.ts, int):
        return point
    try:
        return msgspec.structs.replace(point, ts=to_integer(point.ts, "timestamp"))
    except InvalidRequestError as error:
        raise BadMessageError("time", error.message) from None


def _combine(name: str, in_payload: object, in_topic: Any) -> Any:
    """Merge the values of a field in the payload and in the topic; raises ``BadMessageError``.

    The error states that the payload and the topic have different values.
    """
    if isinstance(in_topic, dict) and isinstance(in_payload, dict):
        combined = {
            key: _combine(f"{name}.{key}", in_payload.get(key), value)
            for key, value in in_topic.items()
        }
        return {**in_payload, **combined}
    if in_payload is not None and in_payload != in_topic:
        raise BadMessageError("payload", f"{name} differs between the payload and the topic")
    return in_topic
