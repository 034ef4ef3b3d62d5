"""The services of a compose file, as far as an emulated fog starts them itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from mistbow.errors import InvalidRequestError

_TAKEN = {"image", "command", "entrypoint", "environment"}


@dataclass(frozen=True, slots=True)
class Service:
    """What runs in a node; ``left_out`` are settings that are written there and not carried out."""

    image: str
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    environment: Mapping[str, str] | list[str] | None = None
    left_out: tuple[str, ...] = ()


def load_services(path: Path) -> dict[str, Service]:
    """Return a compose file's services; raises ``InvalidRequestError`` for one without an image."""
    written: dict[str, Any] = (yaml.safe_load(path.read_text()) or {}).get("services") or {}
    for name, service in written.items():
        if not isinstance(service, dict) or not isinstance(service.get("image"), str):
            raise InvalidRequestError(f"{path}: services.{name}: needs an image")
    return {
        name: Service(
            **{key: value for key, value in service.items() if key in _TAKEN},
            left_out=tuple(sorted(service.keys() - _TAKEN)),
        )
        for name, service in written.items()
    }
