"""The acceptance of submitted texts, and the repetition of requests with an idempotency key."""

import hashlib
import secrets
from dataclasses import asdict

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.semantics import Checked
from mistbow.errors import InvalidQueryError, ReusedKeyError

_ID_DIGITS = 16
_FORMER_ID_DIGITS = 8
"""The number of hexadecimal digits in ids from earlier versions.

Of 10,000 idempotency keys, two had the same id with a probability of 1 %.
"""


def id_of_key(key: str) -> str:
    """Return the id of the deployment of an idempotency key.

    The id identifies a repetition, so only the deployment must be stored.
    """
    return f"d-{hashlib.sha256(key.encode()).hexdigest()[:_ID_DIGITS]}"


def ids_of_key(key: str) -> tuple[str, str]:
    """Return the id of the deployment of an idempotency key, and the id from earlier versions."""
    present = id_of_key(key)
    return present, present[: len("d-") + _FORMER_ID_DIGITS]


def random_id() -> str:
    """Return the id of a deployment without an idempotency key."""
    return f"d-{secrets.token_hex(_ID_DIGITS // 2)}"


def repeated(first: Deployment, queries: str, name: str | None) -> Deployment:
    """Return the deployment ``first`` of an earlier request with the same idempotency key.

    Raises ``ReusedKeyError`` if the queries or the name of the two requests differ.
    """
    if (first.queries, first.name) != (queries, name):
        raise ReusedKeyError(
            f"this Idempotency-Key was already used for other insights, in the deployment "
            f"{first.id}",
            hint="Use a new key for each submission, and the same key to repeat it.",
        )
    return first


def accepted(checked: Checked) -> Checked:
    """Return a checked text; raises ``InvalidQueryError`` if it has errors."""
    if checked.ok:
        return checked
    errors = [problem for problem in checked.problems if problem.severity == "error"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    raise InvalidQueryError(
        f"line {errors[0].line}, column {errors[0].column}: {errors[0].message}{more}",
        hint=errors[0].hint,
        details=[asdict(problem) for problem in checked.problems],
    )
