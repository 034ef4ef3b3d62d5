"""``mistbow token``: manages a file of tokens; services reload the file when it changes."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from command_line.options import parse_end
from mistbow.auth.callers import SCOPES, TokenScope
from mistbow.auth.token_file import (
    new_token_file,
    read_token_file,
    token_file_lock,
    write_token_file,
)
from mistbow.clock import utc_now

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke tokens with fewer rights.")

_out = Console()
_err = Console(stderr=True)

Name = Annotated[str, typer.Argument(help="The name of the token.")]
File = Annotated[
    Path,
    typer.Option(
        envvar="MISTBOW_TOKENS_FILE",
        help="The file of tokens, MISTBOW_TOKENS_FILE of the services.",
    ),
]
Scopes = Annotated[list[str], typer.Option("--scope", help="ingest, read or admin; repeatable.")]
Prefix = Annotated[
    str | None, typer.Option(help="Prefix of the entities that the token may write and read.")
]
Signatures = Annotated[
    list[str] | None,
    typer.Option("--signature", help="Signature of results that the token may read; repeatable."),
]
Expires = Annotated[
    str | None, typer.Option(help="Expiry: a time with zone (ISO 8601), or a number of days: 90d.")
]


@app.command()
def add(
    name: Name,
    file: File,
    scope: Scopes,
    entity_prefix: Prefix = None,
    expires: Expires = None,
    signature: Signatures = None,
) -> None:
    """Create a token and print it once: the file contains only the hash of the token."""
    if entity_prefix == "":
        # For example of an unset variable: the token would have the rights for all entities.
        raise typer.BadParameter("--entity-prefix is empty; omit it for a token without a prefix")
    scopes, end = _scopes(scope), None if expires is None else parse_end(expires)
    with token_file_lock(file):
        content = read_token_file(file) if file.exists() else new_token_file()
        content, token = content.with_token(name, scopes, entity_prefix or "", end, signature or ())
        write_token_file(file, content)
    _err.print(
        f"{name}: store this token safely, it is not shown again", style="dim", highlight=False
    )
    typer.echo(token)


@app.command("list")
def list_all(file: File) -> None:
    """List the names and rights of the tokens in a file."""
    table = Table("name", "scopes", "entity prefix", "signatures", "expires")
    for each in read_token_file(file).tokens:
        end = "never" if each.expires is None else each.expires.isoformat(timespec="minutes")
        over = " (expired)" if each.is_expired(utc_now()) else ""
        scopes, signatures = (", ".join(sorted(some)) for some in (each.scopes, each.signatures))
        table.add_row(each.name, scopes, each.entity_prefix, signatures, end + over)
    _out.print(table, highlight=False)


@app.command()
def revoke(name: Name, file: File) -> None:
    """Remove a token from a file; services refuse the token from the next request on."""
    with token_file_lock(file):
        write_token_file(file, read_token_file(file).without_token(name))
    _out.print(f"{name} is revoked", highlight=False)


def _scopes(given: list[str]) -> frozenset[TokenScope]:
    chosen: set[TokenScope] = {scope for scope in SCOPES if scope in given}
    for word in given:
        if word not in SCOPES:
            raise typer.BadParameter(
                f"--scope {word}: unknown; the scopes are {', '.join(sorted(SCOPES))}"
            )
    return frozenset(chosen)
