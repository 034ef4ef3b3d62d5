"""``mistbow ca``: the certificate authority of a fog, for mutual TLS between its services."""

from pathlib import Path
from typing import Annotated

import typer

from command_line.options import Expires, parse_end
from mistbow.auth.authority import CertificateAuthority

app = typer.Typer(
    no_args_is_help=True, help="Create the fog's certificate authority, and issue certificates."
)

Folder = Annotated[
    Path, typer.Option(help="Folder with the authority and the issued certificates.")
]
DEFAULT_FOLDER = Path("fog-ca")


@app.command()
def init(folder: Folder = DEFAULT_FOLDER, expires: Expires = "3650d") -> None:
    """Create the authority; do not store its key on machines of the fog."""
    authority = CertificateAuthority(folder)
    authority.create(parse_end(expires))
    typer.echo(authority.bundle)


@app.command()
def issue(
    name: Annotated[str, typer.Argument(help="The name of the service.")],
    host: Annotated[
        list[str],
        typer.Option(help="A host name or an address at which others reach it; repeatable."),
    ],
    expires: Expires = "365d",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Issue a certificate for a service, in place of an earlier one of the same name.

    Copy both files to the service only: MISTBOW_TLS_CERT and MISTBOW_TLS_KEY.
    """
    for path in CertificateAuthority(folder).issue(name, host, parse_end(expires)):
        typer.echo(path)


@app.command()
def rotate(
    finish: Annotated[
        bool, typer.Option("--finish", help="From now on, trust only the present authority.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Finish although a former authority has signed certificates."),
    ] = False,
    expires: Expires = "3650d",
    folder: Folder = DEFAULT_FOLDER,
) -> None:
    """Begin a new authority, and trust the former one too; copy the bundle to all services.

    Then issue all certificates again, and copy them. At last: mistbow ca rotate --finish.
    """
    authority = CertificateAuthority(folder)
    if finish:
        authority.finish(force=force)
    else:
        authority.rotate(parse_end(expires))
    typer.echo(authority.bundle)
