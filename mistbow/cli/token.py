"""``mistbow token``: tokens of a file, which services read again whenever it changes."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mistbow.auth.callers import SCOPES, Scope
from mistbow.auth.token_file import new_token_file, now, read_token_file, write_token_file

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke tokens with fewer rights.")

_out = Console()
_err = Console(stderr=True)

Name = Annotated[str, typer.Argument(help="The token's name, by which it is revoked.")]
File = Annotated[
    Path, typer.Option(envvar="MISTBOW_TOKENS_FILE", help="The file that services are given.")
]
Scopes = Annotated[list[str], typer.Option("--scope", help="ingest, read or admin; repeatable.")]
Prefix = Annotated[str, typer.Option(help="Only entities that begin so may be written and read.")]
Signatures = Annotated[
    list[str] | None,
    typer.Option("--signature", help="Opens results of insights signed so; repeatable."),
]
Expires = Annotated[
    str, typer.Option(help="When it ends: a time with its zone (ISO 8601), or in days: 90d.")
]

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")


@app.command()
def add(
    name: Name,
    file: File,
    scope: Scopes,
    entity_prefix: Prefix = "",
    expires: Expires = "",
    signature: Signatures = None,
) -> None:
    """Make a token, and print it: this once, for it is kept nowhere."""
    content = read_token_file(file) if file.exists() else new_token_file()
    content, token = content.added(
        name, _scopes(scope), entity_prefix, _end(expires), signature or ()
    )
    write_token_file(file, content)
    _err.print(f"{name}: keep this, it is not shown again", style="dim", highlight=False)
    typer.echo(token)


@app.command("list")
def list_all(file: File) -> None:
    """List the tokens of a file, without themselves."""
    table = Table("name", "scopes", "entity prefix", "signatures", "expires")
    for each in read_token_file(file).tokens:
        end = "never" if each.expires is None else each.expires.isoformat(timespec="minutes")
        over = " (over)" if each.is_over(now()) else ""
        scopes, signatures = (", ".join(sorted(some)) for some in (each.scopes, each.signatures))
        table.add_row(each.name, scopes, each.entity_prefix, signatures, end + over)
    _out.print(table, highlight=False)


@app.command()
def revoke(name: Name, file: File) -> None:
    """Remove a token; services refuse it from their next request on."""
    write_token_file(file, read_token_file(file).without(name))
    _out.print(f"{name} is revoked", highlight=False)


def _scopes(given: list[str]) -> frozenset[Scope]:
    chosen: set[Scope] = {scope for scope in SCOPES if scope in given}
    for word in given:
        if word not in SCOPES:
            raise typer.BadParameter(f"--scope {word}: there are {', '.join(sorted(SCOPES))}")
    return frozenset(chosen)


def _end(text: str) -> datetime | None:
    if not text:
        return None
    if days := _DAYS.fullmatch(text):
        return now() + timedelta(days=int(days[1]))
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        end = None
    if end is None or end.tzinfo is None:
        raise typer.BadParameter(f"--expires {text}: write 90d, or 2027-01-31T00:00Z")
    if end <= now():
        raise typer.BadParameter(f"--expires {text}: that is over")
    return end.astimezone(UTC)
