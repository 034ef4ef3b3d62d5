"""The identities and tokens of a fog's containers, which are issued on the operator's machine.

Labels of a compose service state what its containers need; ``{replica}`` is a container's number:

- ``mistbow.site``: the site of the container.
- ``mistbow.identities``: the kinds of its services: ``agent,worker``.
- ``mistbow.reach``: the further sites at which they have their rights, or ``*``; see ADR 29.
- ``mistbow.reach.KIND``: the same for the service of one kind, such as ``mistbow.reach.worker``.
- ``mistbow.sends-to``: the sites to whose agents it sends points, with a token for each.

Each container receives only its own files, in the folder ``/run/mistbow``.
"""

import fcntl
import io
import os
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from mistbow.auth.callers import TokenScope
from mistbow.auth.credential import EVERYWHERE, Credential
from mistbow.auth.fog_keys import SUFFIX, FogKeys
from mistbow.auth.token_file import new_token_file, read_token_file, write_token_file
from mistbow.clock import utc_now
from mistbow.errors import ConflictError

FOLDER = "/run/mistbow"
"""The folder of a container with its identities and tokens."""

TOKENS = "tokens.json"

_SITE = "mistbow.site"
_IDENTITIES = "mistbow.identities"
_REACH = "mistbow.reach"
_SENDS_TO = "mistbow.sends-to"
_MONITOR = "monitor"
_USER = 10001
"""The user and the group of the image."""

LIFETIME = timedelta(days=365)
"""The lifetime of the identities and certificates of containers."""

RENEWAL = timedelta(days=60)
"""The remaining lifetime at which identities and certificates are issued again."""


@dataclass(frozen=True, slots=True)
class NodeTrust:
    """The identities that a container needs, by kind, and the sites to which it sends points.

    ``reach``: the reach of services whose kind is not in ``kind_reach``. ``prefix``: the beginning
    of the names of the identities.
    """

    site: str
    identities: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()
    sends_to: tuple[str, ...] = ()
    prefix: str = ""
    kind_reach: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def reach_of(self, kind: str) -> tuple[str, ...]:
        """Return the further sites at which the service of a kind has its rights."""
        return self.kind_reach.get(kind, self.reach)

    def name_of(self, kind: str) -> str:
        """Return the name of the identity of the service of a kind.

        Several containers of a site may have a monitoring agent, so its name contains the kinds of
        the other services of the container.

        >>> NodeTrust("hub", ("worker", "monitor")).name_of("monitor")
        'monitor-worker-hub'
        """
        others = () if kind != _MONITOR else (each for each in self.identities if each != kind)
        return self.prefix + "-".join((kind, *others, self.site))

    @property
    def is_core(self) -> bool:
        """Whether people administer the fog here: its services have their rights at all sites.

        A monitoring agent needs rights at its own site only.
        """
        reaches = [self.reach_of(kind) for kind in self.identities if kind != _MONITOR]
        return bool(reaches) and all(EVERYWHERE in each for each in reaches)


def trust_folder(file: Path) -> Path:
    """Return the folder of the operator for the fog of a compose file, which no other file has.

    >>> trust_folder(Path("/fogs/docker-compose.yml")), trust_folder(Path("/fogs/factory.yml"))
    (PosixPath('/fogs/.mistbow/compose'), PosixPath('/fogs/.mistbow/fogs/factory.yml'))
    """
    return trust_folders(file)[0]


def trust_folders(file: Path) -> tuple[Path, ...]:
    """Return the folder of a compose file, and those that earlier versions would have used.

    Among these are folders that several files of one folder shared.
    """
    real = file.resolve()
    home = real.parent / ".mistbow"
    # The folder of `make up`: both start the fog of docker-compose.yml.
    shared = home / "compose"
    if real.name == "docker-compose.yml":
        return (shared,)
    return home / "fogs" / real.name, home / file.stem, shared


def node_trust(labels: Mapping[str, str], replica: int) -> NodeTrust | None:
    """Return the needs that the labels of a container state; None: the container needs nothing.

    >>> labels = {"mistbow.site": "edge-{replica}", "mistbow.identities": "agent,worker"}
    >>> found = node_trust({**labels, "mistbow.reach.worker": "hub"}, 2)
    >>> found.site, found.identities, found.reach_of("agent"), found.reach_of("worker")
    ('edge-2', ('agent', 'worker'), (), ('hub',))
    """
    if not labels.keys() & {_IDENTITIES, _SENDS_TO}:
        return None

    def values(label: str) -> tuple[str, ...]:
        text = labels.get(label, "").replace("{replica}", str(replica))
        return tuple(filter(None, (part.strip() for part in text.split(","))))

    site = labels.get(_SITE, "").replace("{replica}", str(replica))
    kinds = values(_IDENTITIES)
    by_kind = {kind: values(f"{_REACH}.{kind}") for kind in kinds if f"{_REACH}.{kind}" in labels}
    return NodeTrust(site, kinds, values(_REACH), values(_SENDS_TO), kind_reach=by_kind)


class FogTrust:
    """Issues the identities and tokens of one fog, and stores them in a folder of the operator.

    ``keys``: the fog's key and all identities. ``tokens``: the tokens of people and senders. Both
    folders are created when they are needed first. ``around``: a folder around ``folder``, to whose
    owner root gives what is here: emulation needs root, and `make up` uses the same files without
    root. None: the files stay those of the user who creates them.
    """

    def __init__(self, folder: Path, around: Path | None = None) -> None:
        self.folder = folder
        self._around = around
        self._keys = FogKeys(folder / "keys")
        self._tokens = folder / "tokens"

    def files(self, node: NodeTrust) -> dict[str, bytes]:
        """Return the files of a container: name -> content.

        An identity that expires soon is issued again. Raises ``ConflictError`` if some were
        revoked, with the commands that issue them again.
        """
        with self._lock():
            self._check_revoked(node)
            found = {
                f"{kind}{SUFFIX}": self._identity(kind, node).read_bytes()
                for kind in node.identities
            }
            if node.identities:
                found[TOKENS] = self._site_tokens(node.site, is_core=node.is_core).read_bytes()
            for site in node.sends_to:
                self._site_tokens(site, is_core=False)
                found[f"{site}.token"] = self.token_file(site, "sender").read_bytes()
        return found

    def public_key(self) -> str | None:
        """Return the public key of the fog (hexadecimal); None: the folder has no key yet."""
        return self._keys.public_key() if self._keys.exists else None

    def token_file(self, site: str, role: str) -> Path:
        """Return the file with a token of a site; ``role``: ``sender``, ``reader`` or ``admin``."""
        return self._tokens / f"{site}-{role}.token"

    def token(self, site: str, role: str) -> str:
        """Return a token; see ``token_file``."""
        return self.token_file(site, role).read_text().strip()

    def give_to_owner(self) -> None:
        """Give the folder, with its content, to the owner of the folder around it.

        Only root does so, and only if no folder on the way is a symbolic link, which may name a
        folder of another user.
        """
        around = self._around
        if around is None or os.geteuid() != 0 or not self.folder.exists():
            return
        if self.folder.resolve() != around.resolve() / self.folder.relative_to(around):
            return
        owner = around.stat()
        for folder in self.folder.parents:
            if folder == around:
                break
            _give(folder, owner)
        _give(self.folder, owner)
        for _, folders, files, handle in os.fwalk(self.folder):
            for name in (*folders, *files):
                _give(name, owner, handle)

    def _check_revoked(self, node: NodeTrust) -> None:
        """Raise ``ConflictError`` if identities of a container are revoked."""
        names = {kind: node.name_of(kind) for kind in node.identities}
        revoked = {
            kind: name
            for kind, name in names.items()
            if self._keys.exists and self._keys.is_revoked(name)
        }
        if not revoked:
            return
        commands = []
        for kind, name in revoked.items():
            reaches = "".join(f" --reach '{each}'" for each in node.reach_of(kind))
            commands.append(
                f".venv/bin/mistbow identity issue {name} --kind {kind} --site {node.site}"
                f"{reaches} --folder {self._keys.folder}"
            )
        are = "identity {} is" if len(revoked) == 1 else "identities {} are"
        raise ConflictError(
            f"the {are.format(' and '.join(revoked.values()))} revoked",
            hint="Stop the stolen service, empty its data and identities, and replace its tokens "
            'and its certificate (docs/containers.md, "Identities of containers"). To trust its '
            f"replacement: {' && '.join(commands)}",
        )

    def _identity(self, kind: str, node: NodeTrust) -> Path:
        if not self._keys.exists:
            self._keys.create()
        name, reach = node.name_of(kind), node.reach_of(kind)
        found = self._keys.all().get(name)
        if (
            isinstance(found, Credential)
            and (found.kind, found.site, set(found.reach)) == (kind, node.site, set(reach))
            and found.expires > utc_now() + RENEWAL
        ):
            return self._keys.folder / f"{name}{SUFFIX}"
        return self._keys.issue(name, kind, node.site, utc_now() + LIFETIME, reach)

    def _site_tokens(self, site: str, *, is_core: bool) -> Path:
        """Return the token file of a site's services.

        People administer the fog at its core. An edge accepts no token of another site, so tokens
        that people send to a stolen edge give no access to other sites.
        """
        path = self._tokens / f"{site}.json"
        roles: dict[str, TokenScope] = {"sender": "ingest", "reader": "read"}
        if is_core:
            roles["admin"] = "admin"
        content = before = read_token_file(path) if path.exists() else new_token_file()
        for role, scope in roles.items():
            if any(each.name == role for each in content.tokens):
                continue
            content, token = content.with_token(role, frozenset({scope}), "", None)
            _write_private(self.token_file(site, role), f"{token}\n")
        if content is not before:
            write_token_file(path, content)
        return path

    @contextmanager
    def _lock(self) -> Iterator[None]:
        for folder in (self.folder, self._tokens):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            self.give_to_owner()
            os.close(handle)


def trust_of(file: Path) -> FogTrust:
    """Return the identities and tokens of the fog of a compose file.

    They belong to the owner of the folder of this file.
    """
    return FogTrust(trust_folder(file), file.resolve().parent)


def _give(path: Path | str, owner: os.stat_result, folder: int | None = None) -> None:
    """Give a file to an owner; ``folder``: the open folder that contains ``path``."""
    # Another command may replace the file meanwhile.
    with suppress(FileNotFoundError):
        before = os.stat(path, dir_fd=folder, follow_symlinks=False)
        if (before.st_uid, before.st_gid) != (owner.st_uid, owner.st_gid):
            os.chown(path, owner.st_uid, owner.st_gid, dir_fd=folder, follow_symlinks=False)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of files that only the user of the image can read."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o400, _USER, _USER
            entry.mtime = int(utc_now().timestamp())
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def unpacked(data: bytes) -> dict[str, bytes]:
    """Return the regular files of a tar archive: name without folders -> content."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return {
            Path(entry.name).name: content.read()
            for entry in tar
            if entry.isreg() and (content := tar.extractfile(entry)) is not None
        }


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w") as file:
        file.write(text)
