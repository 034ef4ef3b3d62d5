"""The replicas of a fog: those that a start would remove, and those that the fog needs."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mistbow.errors import ConflictError, InvalidRequestError


def requested_replicas(config: Mapping[str, Any]) -> dict[str, int]:
    """Return service -> the number of its replicas; ``config``: of ``docker compose config``."""
    return {
        name: int(service.get("deploy", {}).get("replicas", 1))
        for name, service in config["services"].items()
    }


def check_edges(config: Mapping[str, Any]) -> None:
    """Raise ``InvalidRequestError`` if a fog would have no edge.

    The buses send their points to edges only, so no insight would have a result.
    """
    if requested_replicas(config)["edge"] < 1:
        raise InvalidRequestError(
            "MISTBOW_EDGES is 0, but the buses send their points to the edges",
            hint="Set MISTBOW_EDGES to at least 1: the insights have no results without points.",
        )


def removed_replicas(
    running: Mapping[str, Collection[int]], requested: Mapping[str, int]
) -> dict[str, list[int]]:
    """Return service -> the numbers of the replicas that compose would remove.

    ``running``: service -> the numbers of its replicas; ``requested``: service -> how many replicas
    it should have. Compose removes the replicas with the greatest numbers. It removes no service
    that is not requested.

    >>> removed_replicas({"edge": [5, 1, 2, 4, 3], "region": [2]}, {"edge": 3, "region": 1})
    {'edge': [4, 5]}
    """
    found = {
        service: sorted(numbers)[requested[service] :]
        for service, numbers in running.items()
        if service in requested
    }
    return {service: numbers for service, numbers in found.items() if numbers}


def check_replicas(
    containers: Collection[Any], config: Mapping[str, Any], label: str, command: str
) -> None:
    """Raise ``ConflictError`` if compose would remove replicas of a fog.

    Their points are in anonymous volumes, which no later replica uses. ``containers``: of the fog,
    as Docker's API returns them; ``label``: the prefix of the labels of compose; ``command``: the
    command that starts the fog.
    """
    by_service: dict[str, dict[int, Any]] = {}
    for each in containers:
        service, number = each.labels[f"{label}.service"], each.labels[f"{label}.container-number"]
        by_service.setdefault(service, {})[int(number)] = each
    removed = removed_replicas(by_service, requested_replicas(config))
    if not removed:
        return
    sites = ", ".join(f"{service}-{n}" for service, numbers in removed.items() for n in numbers)
    names = " ".join(by_service[service][n].name for service in removed for n in removed[service])
    raise ConflictError(
        f"this start would remove the sites {sites}, and make their points unreachable",
        hint=f"Keep them: {' '.join(_variables(by_service, removed))} {command}. Or remove them "
        f"with their points: docker rm --force --volumes {names}",
    )


def _variables(running: Mapping[str, Collection[int]], removed: Collection[str]) -> Iterator[str]:
    """Yield the settings that request the running replicas of the services."""
    for service in removed:
        yield f"MISTBOW_{service.upper()}S={len(running[service])}"
