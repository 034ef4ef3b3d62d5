"""Puts the identities and tokens of a composed fog into its containers: ``make identities``."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError, NotFound  # type: ignore[import-untyped]

from deploy.certificates import FogCertificates
from fog_emulation.fog_trust import FOLDER, FogTrust, archive, node_trust, unpacked
from mistbow.errors import ConflictError, UnavailableError

_AT_ONCE = 8
_NUMBER = "com.docker.compose.container-number"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The result of a delivery to the containers of a fog.

    ``updated``: container -> the names of its new files; containers that had all files are absent.
    ``left_out``: container -> the reason why it got no files.
    """

    updated: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield a line of text for each container that was updated or left out."""
        yield from (f"{name}: {files}" for name, files in self.updated.items())
        yield from (f"{name}: left out: {reason}" for name, reason in self.left_out.items())

    def check_complete(self) -> None:
        """Raise ``ConflictError`` if containers were left out."""
        if self.left_out:
            raise ConflictError(
                f"these containers got no files: {', '.join(sorted(self.left_out))}",
                hint="The lines above state the reasons, and what to do.",
            )


def deliver(
    containers: Iterable[Any], trust: FogTrust, certificates: FogCertificates | None = None
) -> Delivery:
    """Put the files that each container needs into it.

    ``certificates``: issues certificates for containers with the label ``mistbow.tls``; None: they
    get none. Raises ``UnavailableError`` if a container does not take its files.
    """
    try:
        return _deliver(list(containers), trust, certificates)
    finally:
        # The certificates are in the same folder.
        trust.give_to_owner()


def _deliver(
    containers: list[Any], trust: FogTrust, certificates: FogCertificates | None
) -> Delivery:
    done: dict[str, list[str]] = {each.name: [] for each in containers}
    left_out: dict[str, str] = {}
    if certificates is not None:
        # All containers trust a new authority before any of them has its certificates.
        _update_all({each: certificates.authorities(each) for each in containers}, done)
    needed: dict[Any, dict[str, bytes]] = {}
    for container in containers:
        trusted = node_trust(container.labels, int(container.labels.get(_NUMBER, 1)))
        if trusted is None:
            continue
        try:
            files = trust.files(trusted)
            if certificates is not None:
                files |= certificates.files(container)
        except ConflictError as error:
            left_out[container.name] = error.text
            continue
        needed[container] = files
    _update_all(needed, done)
    return Delivery(
        {name: ", ".join(sorted(what)) for name, what in done.items() if what}, left_out
    )


def _update_all(files: dict[Any, dict[str, bytes]], done: dict[str, list[str]]) -> None:
    """Update containers at the same time, since each waits for its own; add to ``done``."""
    with ThreadPoolExecutor(_AT_ONCE, "delivery") as pool:
        for container, what in zip(files, pool.map(_update, files, files.values()), strict=True):
            done[container.name] += what


def _update(container: Any, files: dict[str, bytes]) -> list[str]:
    """Put the files that are missing or outdated in a container into it; return their names."""
    changed = dict(files.items() - _present(container).items()) if files else {}
    if changed:
        _put(container, changed)
    return list(changed)


def _present(container: Any) -> dict[str, bytes]:
    """Return the files that a container has: name -> content."""
    with suppress(NotFound):
        parts, _ = container.get_archive(FOLDER)
        return unpacked(b"".join(parts))
    return {}


def _put(container: Any, files: dict[str, bytes]) -> None:
    """Replace files in a container; its services never read half a file."""
    try:
        container.put_archive(FOLDER, archive({f".{name}.new": files[name] for name in files}))
        moves = " && ".join(f"mv -f .{name}.new {name}" for name in files)
        with suppress(APIError):
            ended = container.exec_run(["sh", "-c", moves], user="0", workdir=FOLDER)
            if ended.exit_code == 0:
                return
        # It does not run at the moment, so no service reads the files.
        container.put_archive(FOLDER, archive(files))
    except APIError as error:
        raise UnavailableError(f"{container.name} does not take its identity: {error}") from error
