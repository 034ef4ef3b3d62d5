"""The services of a compose file that run in the nodes of an emulated fog."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fog_emulation.compose_file import parse_compose, read_compose
from mistbow.errors import InvalidRequestError

_SUPPORTED = {"image", "command", "entrypoint", "shm_size"}

_PAIRS = {"environment", "labels"}

# Emulated nodes get networks and limits from the model instead. They are not reachable from other
# machines, store data in their containers, have no privileges, rotate their logs, are called as in
# the model, start together, and run until an action ends them.
_REPLACED = {
    *("cap_drop", "cpus", "depends_on", "deploy", "healthcheck", "hostname", "init", "logging"),
    *("mem_limit", "networks", "pids_limit", "ports", "read_only", "restart", "security_opt"),
    *("stop_grace_period", "tmpfs", "tty", "volumes"),
}

_VARIABLE = re.compile(
    r"\$(?:\$|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>\w+)(?::?-(?P<default>[^}]*))?\}"
    r"|(?P<other>\{[^}]*\}?))"
)


@dataclass(frozen=True, slots=True)
class ComposeService:
    """The service of a compose file that a node runs.

    ``labels``: the labels of its containers, see ``fog_trust``. ``secrets``: name of the secret ->
    file on this machine. ``unsupported``: the keys in the compose file that a backend must refuse.
    Other keys apply only outside of an emulated fog.
    """

    image: str
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    shm_size: str | int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, Path] = field(default_factory=dict)
    unsupported: tuple[str, ...] = ()


def load_services(
    path: Path, replicas: Mapping[str, int] | None = None
) -> dict[str, ComposeService]:
    """Return the services of a compose file, with variables replaced: name -> service.

    ``replicas``: service -> the number of its instances in the emulated fog; a variable that sets
    the replicas for compose has this value here, instead of that in the environment.

    Raises ``InvalidRequestError`` for a service without an image, and for a secret without a file.
    Paths of secrets are relative to the compose file.
    """
    written: dict[str, Any] = parse_compose(read_compose(path)) or {}
    services: dict[str, Any] = written.get("services") or {}
    if not isinstance(services, dict):
        raise InvalidRequestError(f"{path}: services: write services as NAME: FIELDS")
    for name, service in services.items():
        if not isinstance(service, dict) or not isinstance(service.get("image"), str):
            raise InvalidRequestError(
                f"{path}: services.{name}: the image is missing; name an existing image, because "
                f"no image is built here"
            )
    numbers = _replica_variables(services, replicas or {})
    compose = _interpolated(written, {**os.environ, **numbers})
    return {
        name: ComposeService(
            **{key: service[key] for key in _SUPPORTED & service.keys()},
            environment=_pairs(path, name, "environment", service),
            labels=_pairs(path, name, "labels", service),
            secrets={
                each: _secret(path, each, compose.get("secrets") or {})
                for each in service.get("secrets", ())
            },
            unsupported=tuple(
                sorted(service.keys() - _SUPPORTED - _PAIRS - _REPLACED - {"secrets"})
            ),
        )
        for name, service in (compose.get("services") or {}).items()
    }


def _replica_variables(
    services: Mapping[str, Mapping[str, Any]], replicas: Mapping[str, int]
) -> dict[str, str]:
    """Return the variables that set the replicas of services, with the numbers of the fog."""
    found = {}
    for name in services.keys() & replicas.keys():
        deploy = services[name].get("deploy")
        text = str(deploy.get("replicas", "")) if isinstance(deploy, dict) else ""
        variable = _VARIABLE.fullmatch(text)
        if variable and (named := variable["name"] or variable["plain"]):
            found[named] = str(replicas[name])
    return found


def _interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a part of a compose file, in which variables replace ``${NAME}``.

    As in compose, ``${NAME:-DEFAULT}`` has a default, and ``$$`` is a dollar sign. Raises
    ``InvalidRequestError`` for other forms, such as ``${NAME:?MESSAGE}``.
    """
    if isinstance(value, dict):
        return {key: _interpolated(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_interpolated(part, variables) for part in value]
    if isinstance(value, str):
        return _VARIABLE.sub(partial(_value_of, variables), value)
    return value


def _value_of(variables: Mapping[str, str], variable: re.Match[str]) -> str:
    if variable["other"] is not None:
        raise InvalidRequestError(
            f"{variable[0]} is not supported: write ${{NAME}} or ${{NAME:-DEFAULT}}, or $$ for a $"
        )
    name = variable["name"] or variable["plain"]
    if name is None:
        return "$"
    return variables.get(name) or variable["default"] or ""


def _pairs(path: Path, name: str, key: str, service: Mapping[str, Any]) -> dict[str, str]:
    """Return the pairs of a field that compose accepts as fields, or as a list of NAME=VALUE."""
    given = service.get(key) or {}
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        given = dict(each.split("=", 1) if "=" in each else (each, None) for each in given)
    scalars = str | int | float | None
    if not isinstance(given, dict) or not all(isinstance(each, scalars) for each in given.values()):
        raise InvalidRequestError(
            f"{path}: services.{name}.{key}: write NAME: VALUE, or a list of NAME=VALUE"
        )
    # A name without a value has that of this process, if any.
    known = {
        each: os.environ.get(each) if value is None else value for each, value in given.items()
    }
    return {
        str(each): str(value).lower() if isinstance(value, bool) else str(value)
        for each, value in known.items()
        if value is not None
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
