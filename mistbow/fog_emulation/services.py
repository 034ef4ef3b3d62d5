"""The services of a compose file, as far as an emulated fog starts them itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mistbow.errors import InvalidRequestError

_TAKEN = {"image", "command", "entrypoint", "environment", "shm_size"}


@dataclass(frozen=True, slots=True)
class Service:
    """What runs in a node; ``secrets`` are files of this machine by their names in the node.

    ``left_out`` are settings that are written there and not carried out.
    """

    image: str
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    environment: Mapping[str, str] | list[str] | None = None
    shm_size: str | int | None = None
    secrets: Mapping[str, Path] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def load_services(path: Path) -> dict[str, Service]:
    """Return a compose file's services; raises ``InvalidRequestError`` for one without an image.

    Of secrets it takes those of a file, which is looked for beside the compose file, and is refused
    when it is not there.
    """
    compose: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
    written: dict[str, Any] = compose.get("services") or {}
    for name, service in written.items():
        if not isinstance(service, dict) or not isinstance(service.get("image"), str):
            raise InvalidRequestError(f"{path}: services.{name}: needs an image")
    return {
        name: Service(
            **{key: value for key, value in service.items() if key in _TAKEN},
            secrets={
                each: _secret(path, each, compose.get("secrets") or {})
                for each in service.get("secrets", ())
            },
            left_out=tuple(sorted(service.keys() - _TAKEN - {"secrets"})),
        )
        for name, service in written.items()
    }


def _secret(path: Path, name: Any, known: Mapping[str, Any]) -> Path:
    if not isinstance(name, str) or not isinstance(known.get(name), dict):
        raise InvalidRequestError(f"{path}: secrets: {name} is none that is declared by its name")
    file = known[name].get("file")
    if not isinstance(file, str):
        raise InvalidRequestError(f"{path}: secrets.{name}: needs a file")
    return (path.parent / file).resolve()
