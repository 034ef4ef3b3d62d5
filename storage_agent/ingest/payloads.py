"""From an MQTT message to points: a number, an object of a /put, or a list of such."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from mistbow.topics import TopicTemplate
from storage_agent.monitoring.bodies import Measurement

_LABEL = "labels."


class BadMessageError(Exception):
    """A message that cannot be stored: ``reason`` is one of few words, the text says more."""

    def __init__(self, reason: str, what: str) -> None:
        super().__init__(what)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Points:
    """The points of a message; ``timed``: all of them came with times of their own."""

    items: list[Measurement]
    timed: bool


def points_of(topic: str, payload: bytes, templates: Sequence[TopicTemplate], now: int) -> Points:
    """Return the points of a message; those without a time get ``now`` (ms).

    Raises ``BadMessageError``, which never tells what is in the payload.
    """
    said = _said(topic, templates)
    try:
        content = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadMessageError("payload", "the payload is not JSON") from None
    # A number alone is a value.
    if isinstance(content, int | float) and not isinstance(content, bool):
        content = {"val": content}
    listed = content if isinstance(content, list) else [content]
    timed = all(isinstance(item, dict) and "timestamp" in item for item in listed)
    return Points([_point(item, said, now) for item in listed], timed)


def _said(topic: str, templates: Sequence[TopicTemplate]) -> Mapping[str, Any]:
    for template in templates:
        found = template.read(topic)
        if found is not None:
            labels = {
                name.removeprefix(_LABEL): value
                for name, value in found.items()
                if name.startswith(_LABEL)
            }
            fields = {name: v for name, v in found.items() if not name.startswith(_LABEL)}
            return {**fields, "labels": labels} if labels else fields
    raise BadMessageError("topic", "no template has this topic")


def _point(item: object, said: Mapping[str, Any], now: int) -> Measurement:
    if not isinstance(item, dict):
        raise BadMessageError("payload", "it is not a number, an object, or a list of objects")
    whole = {"timestamp": now, **item}
    for name, value in said.items():
        whole[name] = _agreed(name, item.get(name), value)
    try:
        return msgspec.convert(whole, Measurement)
    except msgspec.ValidationError as error:
        raise BadMessageError("payload", str(error)) from None


def _agreed(name: str, given: object, said: Any) -> Any:
    """Return what topic and payload say of a field together."""
    if isinstance(said, dict) and isinstance(given, dict):
        return {
            **given,
            **{key: _agreed(f"{name}.{key}", given.get(key), said[key]) for key in said},
        }
    if given is not None and given != said:
        raise BadMessageError("payload", f"{name} is another one in the topic")
    return said
