"""``mistbow identity``: issues identities, by which services prove who they are."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from command_line.options import Expires, parse_end
from mistbow.auth.credential import EVERYWHERE, Credential
from mistbow.auth.fog_keys import FogKeys

app = typer.Typer(no_args_is_help=True, help="Issue, list and revoke the identities of services.")

_out = Console()

Folder = Annotated[Path, typer.Option(help="Folder of the fog's key and of the issued identities.")]
Name = Annotated[str, typer.Argument(help="The name of the service.")]
Kind = Annotated[str, typer.Option(help="agent, worker, enabler or monitor.")]
Site = Annotated[str, typer.Option(help="The site of the service.")]
Reach = Annotated[
    list[str] | None,
    typer.Option(
        help=f"A further site at which the service has its rights, or '{EVERYWHERE}' for all; "
        "repeatable. Without it, the service has them at its own site only."
    ),
]

DEFAULT_FOLDER = Path("fog-keys")


@app.command()
def init(folder: Folder = DEFAULT_FOLDER) -> None:
    """Create the fog's key, which signs all identities; do not store it on machines of the fog."""
    FogKeys(folder).create()
    _out.print(f"created the key of a fog in {folder}", highlight=False)


@app.command()
def issue(
    name: Name,
    kind: Kind,
    site: Site,
    reach: Reach = None,
    expires: Expires = "365d",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Issue the identity of a service; it replaces an earlier identity of the same name.

    Copy the file to the service only, and set MISTBOW_IDENTITY_FILE to its path.
    """
    path = FogKeys(folder).issue(name, kind, site, parse_end(expires), reach or ())
    typer.echo(path)


@app.command("list")
def list_all(folder: Folder = DEFAULT_FOLDER) -> None:
    """List the identities in a folder."""
    table = Table("name", "kind", "site", "reach", "expires")
    for name, found in FogKeys(folder).all().items():
        if isinstance(found, Credential):
            end = found.expires.isoformat(timespec="minutes")
            table.add_row(name, found.kind, found.site, ", ".join(found.reach), end)
        else:
            table.add_row(name, "", "", "", found.message)
    _out.print(table, highlight=False)


@app.command()
def revoke(name: Name, folder: Folder = DEFAULT_FOLDER) -> None:
    """Revoke an identity; afterwards, copy all other identities to their services again."""
    others = FogKeys(folder).revoke(name)
    _out.print(
        f"{name} is revoked when each other service has its file again. Copy these files:",
        highlight=False,
    )
    for path in others:
        typer.echo(path)
