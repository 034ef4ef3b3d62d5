"""The settings that a scheduler says it takes, for a query's to be checked before it runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from mistbow.errors import InvalidRequestError
from mistbow.fog.jobs import Setting
from mistbow.packages import packages
from mistbow.schedulers.guard import FailedError, answer_of
from mistbow.schedulers.process import settings_of
from mistbow.schedulers.registry import load, places_of

LIMIT_S = 15.0
"""How long a scheduler's process may take to tell; it is asked once, not again and again."""

_OUR_OWN = "mistbow."


@dataclass(frozen=True, slots=True)
class Declared:
    """Settings by their names, each as a JSON schema."""

    schemas: Mapping[str, dict[str, Any]]

    def problem(self, key: str, value: Setting) -> str | None:
        """Say what is wrong with a setting's value, if anything."""
        # Of a list, JSON knows arrays only.
        told = list(value) if isinstance(value, tuple) else value
        found = next(jsonschema_rs.iter_errors(self.schemas[key], told), None)
        return None if found is None else found.message

    def describe(self, key: str) -> str:
        """Return what a setting is, in a sentence.

        >>> Declared({"margin": {"description": "a share", "default": 0.1}}).describe("margin")
        'margin: a share; without it 0.1.'
        """
        schema = self.schemas[key]
        described = str(schema.get("description", schema.get("type", "any value")))
        default = f"; without it {schema['default']}" if "default" in schema else ""
        return f"{key}: {described}{default}."


def declared(name: str) -> Declared:
    """Return the settings that a scheduler takes; one of another package tells in a process.

    Raises ``InvalidRequestError`` if it cannot be asked.
    """
    try:
        return _declared(name, packages())
    except (FailedError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(
            f"the scheduler `{name}` cannot say which settings it takes: {error}"
        ) from error


@lru_cache(maxsize=64)
def _declared(name: str, installed: tuple[tuple[str, int], ...]) -> Declared:
    del installed  # what is installed since is asked anew
    if all(place.startswith(_OUR_OWN) for place in places_of(name)):
        return Declared(settings_of(load(name)))  # of which nothing is to be feared
    answer = answer_of(name, b"null", LIMIT_S)
    return Declared(msgspec.json.decode(answer, type=dict[str, dict[str, Any]]))
