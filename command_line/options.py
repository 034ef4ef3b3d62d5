"""The options that several commands share."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from mistbow.clock import utc_now

AgentUrl = Annotated[
    str,
    typer.Option(
        "--agent-url", "--url", envvar="MISTBOW_AGENT_URL", help="Address of the storage agent."
    ),
]
Token = Annotated[
    str | None, typer.Option(envvar="MISTBOW_TOKEN", help="Bearer token.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Expires = Annotated[
    str, typer.Option(help="Expiry: a time with zone (ISO 8601), or a number of days: 90d.")
]

AGENT_URL = "http://127.0.0.1:8300"
"""The address of the storage agent on this machine."""

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")


def parse_end(text: str) -> datetime:
    """Return the time that a text ``90d`` or a time in ISO 8601 means; it must be in the future."""
    if days := _DAYS.fullmatch(text):
        return utc_now() + timedelta(days=int(days[1]))
    try:
        end = datetime.fromisoformat(text)
    except ValueError:
        end = None
    if end is None or end.tzinfo is None:
        raise typer.BadParameter(f"--expires {text}: write 90d, or 2027-01-31T00:00Z")
    if end <= utc_now():
        raise typer.BadParameter(f"--expires {text}: the time is in the past")
    return end.astimezone(UTC)
