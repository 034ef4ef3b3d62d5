"""The expiry of tokens, identities and certificates, as an option of the command line."""

import re
from datetime import UTC, datetime, timedelta

import typer

from mistbow.clock import utc_now

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")


def parse_end(text: str) -> datetime:
    """Return the time that a text ``90d`` or a time in ISO 8601 means; it must be ahead."""
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
