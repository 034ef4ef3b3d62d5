"""The limit on the open files of a process, which include its connections."""

import contextlib
import resource
import sys

_MAX_LIMIT = 65_536


def raise_file_limit() -> None:
    """Raise the limit as far as this user may, up to 65,536 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MAX_LIMIT if hard == resource.RLIM_INFINITY else min(hard, _MAX_LIMIT)
    if soft != resource.RLIM_INFINITY and soft < limit:
        # A sandbox may forbid it; the service then has fewer connections.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def max_connections() -> int:
    """Return how many connections a service may have: half of its limit, so that files remain."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft // 2
