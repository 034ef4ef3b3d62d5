"""The acceptance of submitted texts, and the repetition of requests with an idempotency key."""

import hashlib
from dataclasses import asdict

from analytics_enabler.deployments.model import Deployment
from analytics_enabler.semantics import Checked
from mistbow.errors import InvalidQueryError, ReusedKeyError


def id_of_key(key: str) -> str:
    """Return the id of the deployment of an idempotency key.

    The id identifies a repetition, so only the deployment must be stored.
    """
    return f"d-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


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
