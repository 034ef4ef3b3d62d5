"""The services of a compose file that run in the nodes of an emulated fog."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mistbow.errors import InvalidRequestError

_SUPPORTED = {"image", "command", "entrypoint", "environment", "shm_size"}


@dataclass(frozen=True, slots=True)
class ComposeService:
    """The service of a compose file that a node runs.

    ``secrets``: name of the secret -> file on this machine. ``unsupported``: the keys in the
    compose file that have no effect.
    """

    image: str
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    environment: Mapping[str, str] | list[str] | None = None
    shm_size: str | int | None = None
    secrets: Mapping[str, Path] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()


def load_services(path: Path) -> dict[str, ComposeService]:
    """Return the services of a compose file: name -> service.

    Raises ``InvalidRequestError`` for a service without an image, and for a secret without a file.
    Paths of secrets are relative to the compose file.
    """
    compose: dict[str, Any] = yaml.safe_load(path.read_text()) or {}
    services: dict[str, Any] = compose.get("services") or {}
    for name, service in services.items():
        if not isinstance(service, dict) or not isinstance(service.get("image"), str):
            raise InvalidRequestError(
                f"{path}: services.{name}: the image is missing; name an existing image, because "
                f"no image is built here"
            )
    return {
        name: ComposeService(
            **{key: value for key, value in service.items() if key in _SUPPORTED},
            secrets={
                each: _secret(path, each, compose.get("secrets") or {})
                for each in service.get("secrets", ())
            },
            unsupported=tuple(sorted(service.keys() - _SUPPORTED - {"secrets"})),
        )
        for name, service in services.items()
    }


def _secret(path: Path, name: Any, declared: Mapping[str, Any]) -> Path:
    if not isinstance(name, str) or not isinstance(declared.get(name), dict):
        raise InvalidRequestError(f"{path}: secrets: {name!r} is not declared under secrets")
    file = declared[name].get("file")
    if not isinstance(file, str):
        raise InvalidRequestError(
            f"{path}: secrets.{name}.file is missing; set it to the path of the secret"
        )
    return (path.parent / file).resolve()
