"""The settings of a scheduler, converted to the struct that the scheduler declares."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from analytics_enabler.scheduling.model.jobs import Setting
from mistbow.errors import InvalidRequestError

Settings = TypeVar("Settings", bound=msgspec.Struct)


def settings_of(declared: type[Settings], settings: Mapping[str, Setting]) -> Settings:
    """Return settings as a struct; texts are converted to the types of the struct.

    Raises ``InvalidRequestError`` if a setting is invalid.
    """
    try:
        return msgspec.convert(dict(settings), declared, strict=False)
    except msgspec.ValidationError as error:
        problem, _, path = str(error).partition(" - at `$.")
        name = path.rstrip("`")
        raise InvalidRequestError(f"{name}: {problem} (got {settings.get(name)!r})") from None
