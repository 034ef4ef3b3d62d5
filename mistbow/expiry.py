"""When the expiry of an identity or a certificate is a problem, and its text."""

from datetime import UTC, datetime, timedelta

EXPIRES_SOON = timedelta(days=30)
"""The remaining lifetime at which identities and certificates should be issued again."""


def expiry_text(end: datetime, now: datetime) -> str | None:
    """Return the text of an expiry that is past or soon; None: a later expiry.

    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> [expiry_text(now + timedelta(days=days), now) for days in (40, 20, -1)]
    [None, 'expires on 2026-01-21', 'expired on 2025-12-31']
    """
    if end - now > EXPIRES_SOON:
        return None
    return f"{'expires' if end > now else 'expired'} on {end:%Y-%m-%d}"


def announced_expiry_text(end: int | None, now: int) -> str | None:
    """Return the text of an announced expiry, as ``expiry_text`` does.

    ``end``, ``now``: ms since the epoch; None as ``end``: the service announced no expiry.
    """
    if end is None:
        return None
    return expiry_text(*(datetime.fromtimestamp(time / 1000, UTC) for time in (end, now)))
