"""Text as it is measured, made fit to be sent."""

from typing import Any

import msgspec

from mistbow.client.agent_model import Point


def with_clean_text(point: Point) -> Point:
    """Return a point with ``?`` for what UTF-8 cannot carry in its names, entities and labels.

    Such is a lone surrogate: psutil makes one of each byte of a name that is not valid UTF-8.
    """
    return msgspec.convert(_clean(msgspec.to_builtins(point)), Point)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    return value
