"""The versions of deployments: a request can require that a deployment has not changed (If-Match).

A version depends only on what a user writes: the text and the name. Pauses do not change it. So
the enablers of a domain agree on it, and a text that was restored has its former version.
"""

import hashlib
import re
from collections.abc import Collection

import msgspec

from analytics_enabler.deployments.model import Deployment
from mistbow.clock import time_words
from mistbow.errors import InvalidRequestError, PreconditionFailedError

_TAGS = re.compile(r'\s*(?:W/)?"[\x21\x23-\x7e]*"\s*(?:,\s*(?:W/)?"[\x21\x23-\x7e]*"\s*)*')
_TAG = re.compile(r'(W/)?"([^"]*)"')


def version_of(deployment: Deployment) -> str:
    """Return the version of a deployment, a short text of hexadecimal digits."""
    written = msgspec.json.encode([deployment.id, deployment.queries, deployment.name])
    return hashlib.sha256(written).hexdigest()[:16]


def entity_tag(version: str) -> str:
    """Return a version as the value of the header ``ETag``."""
    return f'"{version}"'


def expected_versions(if_match: str | None) -> Collection[str] | None:
    """Return the versions in a header ``If-Match``; None: the request accepts every version.

    Weak tags match no version. Raises ``InvalidRequestError`` if the header is not a list of tags.

    >>> expected_versions('"a", W/"b"'), expected_versions("*"), expected_versions(None)
    (['a'], None, None)
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if _TAGS.fullmatch(if_match) is None:
        raise InvalidRequestError(
            f"If-Match: {if_match[:50]!r} is not a list of entity tags",
            hint='Send the ETag of an answer, with its quotes: If-Match: "…".',
        )
    return [tag for weak, tag in _TAG.findall(if_match) if not weak]


def check_version(deployment: Deployment, expected: Collection[str] | None) -> None:
    """Raise ``PreconditionFailedError`` unless a deployment has one of the expected versions.

    ``expected``: None: every version. The details of the error have the present version, the
    present text and name, and the author and the time of the last amendment.
    """
    present = version_of(deployment)
    if expected is None or present in expected:
        return
    message = f"the deployment {deployment.id} has changed since the version that the request names"
    if deployment.amended_at is not None:
        author = deployment.amended_by or "a request"
        message += f": {author} amended it at {time_words(deployment.amended_at)}"
    raise PreconditionFailedError(
        message,
        hint=f"Read GET /api/insights/{deployment.id} again, and repeat the request with its ETag.",
        details={
            "version": present,
            "queries": deployment.queries,
            "name": deployment.name,
            "amended_at": deployment.amended_at,
            "amended_by": deployment.amended_by,
        },
    )
