"""The settings that schedulers declare, and to which settings in queries must conform."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from analytics.packages import packages
from analytics.sandbox import SandboxError
from analytics_enabler.scheduling.model.jobs import Setting
from analytics_enabler.scheduling.registry import entry_points_of, load_scheduler
from analytics_enabler.scheduling.sandbox.child import declared_settings
from analytics_enabler.scheduling.sandbox.processes import PROCESSES
from mistbow.errors import InvalidRequestError

LIMIT_S = 15.0
"""The time limit (s) of the sandbox that returns the settings of a scheduler.

The limit is longer than the limit for a decision, because settings are rarely requested.
"""

_OWN_PACKAGE = "analytics_enabler."


@dataclass(frozen=True, slots=True)
class SettingsSchema:
    """The settings that a scheduler declares; ``schemas``: name of a setting -> JSON schema."""

    schemas: Mapping[str, dict[str, Any]]

    def violation(self, key: str, value: Setting) -> str | None:
        """Return why ``value`` is invalid for the setting ``key``; None: the value is valid."""
        # JSON Schema accepts lists as arrays, but not tuples.
        json_value = list(value) if isinstance(value, tuple) else value
        error = next(jsonschema_rs.iter_errors(self.schemas[key], json_value), None)
        return None if error is None else error.message

    def describe(self, key: str) -> str:
        """Return a sentence that describes the setting ``key``.

        >>> SettingsSchema({"margin": {"description": "share", "default": 0.1}}).describe("margin")
        'margin: share; without it 0.1.'
        """
        schema = self.schemas[key]
        description = str(schema.get("description", schema.get("type", "any value")))
        default = f"; without it {schema['default']}" if "default" in schema else ""
        return f"{key}: {description}{default}."


def settings_schema(name: str) -> SettingsSchema:
    """Return the settings that a scheduler declares.

    A scheduler from another package is loaded in a sandbox. Raises ``InvalidRequestError`` if
    loading fails or takes longer than ``LIMIT_S``.
    """
    try:
        return _settings_schema(name, packages())
    except (SandboxError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(
            f"the scheduler `{name}` does not declare its settings: {error}"
        ) from error


@lru_cache(maxsize=64)
def _settings_schema(name: str, installed: tuple[tuple[str, int], ...]) -> SettingsSchema:
    del installed  # part of the key: a package that is installed later changes it
    if all(entry.startswith(_OWN_PACKAGE) for entry in entry_points_of(name)):
        return SettingsSchema(declared_settings(load_scheduler(name)))  # our own needs no sandbox
    answer = PROCESSES.call(name, b"null", LIMIT_S)
    return SettingsSchema(msgspec.json.decode(answer, type=dict[str, dict[str, Any]]))
