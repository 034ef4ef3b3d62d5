"""``mistbow storage``: runs a site's storage, and inspects the storage of an agent.

Each command imports its modules only when it runs, since every service starts through this package.
"""

import inspect
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from command_line.data_loss import accept_loss, repair
from command_line.options import AGENT_URL, AgentUrl, AsJson, Token
from ignite_server.settings import IgniteSettings
from mistbow.flags import bearer_token, ca_file, command_of
from suite.settings import StorageSettings

if TYPE_CHECKING:
    from mistbow.client.agent import AgentClient
    from mistbow.streams.models import (
        StreamInfo,
    )

_LAST = 50
"""The number of positions before the head in which the last row is searched for.

The last positions can be without rows: the claim of a lease takes a position, but stores no row.
"""


class StreamFigures(msgspec.Struct, frozen=True):
    """Figures of a stored stream.

    ``first_ts`` and ``last_ts``: the times of the first and the last row (ms since the epoch); None
    if the stream has no rows or no column ``ts``. ``bytes_per_row``: None if the stream has no
    rows. ``retention_ms``: None if rows do not expire.
    """

    name: str
    segments: int
    rows: int
    bytes: int
    bytes_per_row: float | None
    first_ts: int | None
    last_ts: int | None
    retention_ms: int | None


def _run(settings: StorageSettings) -> None:
    from suite.storage import run

    run(settings)


def inspect_storage(
    url: AgentUrl = AGENT_URL,
    token: Token = None,
    site: Annotated[
        str | None, typer.Option(help="The site whose streams are shown, through this agent.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the streams of an agent: segments, rows, bytes, times and retention."""
    from mistbow.client.agent import AgentClient

    client = AgentClient(url, token=bearer_token(token), ca=ca_file())
    try:
        there = client if site is None else client.at(site)
        figures = [_figures(there, info) for info in there.streams()]
    finally:
        client.close()
    if as_json:
        Console().print(
            msgspec.json.encode({"streams": figures}).decode(),
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    else:
        Console().print(_table(figures))


def _figures(client: "AgentClient", info: "StreamInfo") -> StreamFigures:
    timed = any(field.name == "ts" for field in info.fields)
    ends = _ends(client, info) if timed and info.rows else (None, None)
    return StreamFigures(
        info.name,
        info.segments,
        info.rows,
        info.stored_bytes,
        round(info.stored_bytes / info.rows, 2) if info.rows else None,
        *ends,
        info.retention_ms,
    )


def _ends(client: "AgentClient", info: "StreamInfo") -> tuple[int | None, int | None]:
    first = client.rows(info.name, info.first, limit=1, columns=["ts"]).rows
    tail = max(info.first, info.head - _LAST)
    last = client.rows(info.name, tail, info.head, limit=_LAST, columns=["ts"]).rows
    return _time(first[:1]), _time(last[-1:])


def _time(rows: Sequence[dict[str, Any]]) -> int | None:
    return int(rows[0]["ts"]) if rows and rows[0]["ts"] is not None else None


def _table(figures: Sequence[StreamFigures]) -> Table:
    table = Table("stream")
    for title in ("segments", "rows", "bytes", "bytes/row"):
        table.add_column(title, justify="right")
    for title in ("first row", "last row", "retention"):
        table.add_column(title)
    for each in figures:
        table.add_row(
            each.name,
            f"{each.segments:,}",
            f"{each.rows:,}",
            f"{each.bytes:,}",
            "" if each.bytes_per_row is None else f"{each.bytes_per_row:.1f}",
            _instant(each.first_ts),
            _instant(each.last_ts),
            duration(each.retention_ms),
        )
    return table


def _instant(ts: int | None) -> str:
    if ts is None:
        return ""
    try:
        return datetime.fromtimestamp(ts / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # outside the range of datetime
        return str(ts)


def duration(milliseconds: int | None) -> str:
    """Return a duration as a text, in the largest unit that divides the duration.

    None, which stands for an unlimited duration, gives ``unlimited``.
    """
    if milliseconds is None:
        return "unlimited"
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if milliseconds >= size and milliseconds % size == 0:
            return f"{milliseconds // size} {unit}"
    return f"{milliseconds} ms"


def _callback() -> Callable[..., None]:
    """Return the function that Typer calls for ``mistbow storage`` without a subcommand.

    The flags of the function are the fields of ``StorageSettings``.
    """
    start = command_of(StorageSettings, _run)

    def begin(context: typer.Context, **given: str | None) -> None:
        if context.invoked_subcommand is None:
            start(**given)

    own = inspect.Parameter("context", inspect.Parameter.POSITIONAL_ONLY, annotation=typer.Context)
    flags = inspect.signature(start).parameters
    begin.__signature__ = inspect.Signature([own, *flags.values()])  # type: ignore[attr-defined]
    begin.__annotations__ = {"context": typer.Context, **start.__annotations__}
    return begin


app = typer.Typer()
app.callback(invoke_without_command=True, help="Run a site's storage: Ignite and a storage agent.")(
    _callback()
)
app.command("inspect")(inspect_storage)
app.command("repair")(repair)
app.command("accept-loss", help=accept_loss.__doc__)(command_of(IgniteSettings, accept_loss))
