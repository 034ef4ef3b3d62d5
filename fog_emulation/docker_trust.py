"""The identities and tokens of a fog that is running, also if an earlier version started it."""

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker  # type: ignore[import-untyped]
import msgspec
from docker.errors import NotFound  # type: ignore[import-untyped]

from fog_emulation.docker_backend import FOG_LABEL, docker_errors
from fog_emulation.fog_trust import FOLDER, FogTrust, trust_folders, unpacked
from mistbow.auth.fog_keys import SUFFIX
from mistbow.auth.identity import IdentityContent
from mistbow.errors import ConflictError


def running_trust(file: Path, name: str) -> FogTrust:
    """Return the identities and tokens of the running fog called ``name`` of a compose file.

    They are in the folder whose key the containers of the fog trust. If no container has an
    identity, they are in the folder of the file. Raises ``ConflictError`` if no folder of the file
    has the key.
    """
    home = file.resolve().parent
    present, *former = (FogTrust(folder, home) for folder in trust_folders(file))
    keys = _fog_keys(name)
    if not keys:
        return present
    for trust in (present, *former):
        if trust.public_key() in keys:
            return trust
    raise ConflictError(
        f"the key of the running fog {name} is not in {present.folder}",
        hint=f"Another file of this name started it, or the folder was removed. Remove the fog by "
        f"`mistbow fog down {file}`, or use the file that started it.",
    )


def _fog_keys(name: str) -> tuple[str, ...]:
    """Return the public keys of the fog that its containers trust; empty: they have none."""
    ours = {"label": f"{FOG_LABEL}={name}"}
    with docker_errors(), closing(docker.from_env()) as engine:
        for container in engine.containers.list(all=True, filters=ours, ignore_removed=True):
            for identity in _identities(container):
                return identity.fog
    return ()


def _identities(container: Any) -> Iterator[IdentityContent]:
    with suppress(NotFound):
        parts, _ = container.get_archive(FOLDER)
        for name, content in unpacked(b"".join(parts)).items():
            if name.endswith(SUFFIX):
                yield msgspec.json.decode(content, type=IdentityContent)
