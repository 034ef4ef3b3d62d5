"""``mistbow backup`` and ``mistbow restore``: copy a running site, and make a site of the copy."""

import asyncio
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from command_line.options import AGENT_URL, AgentUrl, Token
from ignite_server.settings import IgniteSettings
from mistbow.errors import ConflictError, UnavailableError
from mistbow.flags import bearer_token, ca_file, command_of

if TYPE_CHECKING:
    from storage_agent.backup.archive import Archive, BackupContents

# Lines are not wrapped, also in a pipe.
_out = Console(highlight=False, markup=False, soft_wrap=True)

_ATTEMPTS = 20
_CONNECT_S = 30.0

Location = Annotated[
    str,
    typer.Argument(
        metavar="LOCATION",
        help="A folder, or the URI of a file system of pyarrow, such as s3://bucket/edge-1.",
    ),
]


def backup(
    location: Location,
    url: AgentUrl = AGENT_URL,
    token: Token = None,
    site: Annotated[
        str | None, typer.Option(help="The site to back up, through this agent.")
    ] = None,
) -> None:
    """Back up all data of a site while it runs.

    The token needs the scope admin.
    """
    from mistbow.client.agent import AgentClient
    from storage_agent.backup.archive import Archive
    from storage_agent.backup.copy import back_up

    client = AgentClient(url, token=bearer_token(token), ca=ca_file(), attempts=_ATTEMPTS)
    try:
        there = client if site is None else client.at(site)
        archive = Archive(location)
        cut = back_up(there, archive, lambda stream: _out.print(f"copied {stream}"))
        _print_summary(archive.contents(), f"backup of {cut.site} in {archive.location}")
    finally:
        client.close()


def _restore(location: str, settings: IgniteSettings) -> None:
    from ignite_server.server import IgniteServer
    from mistbow.home_lock import home_lock
    from mistbow.private_files import make_home
    from storage_agent.backup.archive import Archive
    from suite.processes import ignite_config

    if settings.site_nodes:
        raise ConflictError(
            "a site of several Ignite nodes cannot be restored by this command",
            hint="Restore it to a site of one node without MISTBOW_IGNITE_NODES, and add the "
            "other nodes afterwards.",
        )
    if settings.durability == "memory":
        raise ConflictError(
            "with MISTBOW_DURABILITY=memory, Ignite stores nothing on disk, so the restored data "
            "would be lost at the end of this command",
            hint="Restore the backup and start the site with --durability fsync or log.",
        )
    archive = Archive(location)
    archive.check_files(archive.contents())
    make_home(settings.home)
    with home_lock(settings.home, "run", "mistbow restore"):
        server = IgniteServer(settings.home, jars=settings.jars_folder)
        server.config = ignite_config(settings)
        with server:
            contents = asyncio.run(_store(archive, settings))
    _print_summary(contents, f"restored {contents.site} to {settings.home}")
    _out.print(
        f"Start the site with MISTBOW_SITE={contents.site} and MISTBOW_NODE={contents.node}."
    )


async def _store(archive: "Archive", settings: IgniteSettings) -> "BackupContents":
    from mistbow.clock import system_clock
    from storage_agent.backup.restore import restore
    from storage_agent.ignite.client import IgniteClient

    ignite = IgniteClient(
        [(settings.ignite_address, settings.ignite_port)],
        settings.ignite_tls_ca,
        settings.home / "ignite",
    )
    ignite.start()
    try:
        if not await ignite.wait_connected(_CONNECT_S):
            raise UnavailableError(
                f"Ignite at {ignite.name} does not answer", hint=ignite.refusal or None
            )
        return await restore(
            archive, ignite, system_clock, lambda stream: _out.print(f"restored {stream}")
        )
    finally:
        await ignite.close()


def _print_summary(contents: "BackupContents", title: str) -> None:
    rows = sum(part.rows for each in contents.streams for part in each.parts)
    size = sum(file.bytes for file in contents.files)
    cut = datetime.fromtimestamp(contents.cut / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    _out.print(
        f"{title}: {len(contents.streams)} streams, {rows:,} rows, {size:,} bytes, cut at {cut} UTC"
    )


def restore_command() -> Callable[..., None]:
    """Return the command ``mistbow restore``, with a flag for each setting of Ignite."""

    def restore(location: Location, **given: str | None) -> None:
        """Restore a backup to an empty site on this machine; stop the services of the site first.

        The restored site lacks points that arrived after the cut of the backup. Replicas at other
        sites retain these points.
        """
        command_of(IgniteSettings, lambda settings: _restore(location, settings))(**given)

    flags = inspect.signature(command_of(IgniteSettings, lambda _: None)).parameters
    own = inspect.Parameter(
        "location", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Location
    )
    restore.__signature__ = inspect.Signature([own, *flags.values()])  # type: ignore[attr-defined]
    restore.__annotations__ = {name: each.annotation for name, each in flags.items()}
    restore.__annotations__["location"] = Location
    return restore
