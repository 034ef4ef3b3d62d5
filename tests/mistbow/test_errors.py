"""The classes of errors in answers, also in answers of proxies, which have no code."""

import pytest

from mistbow.errors import (
    FencedError,
    MistbowError,
    NotFoundError,
    SlowRequestError,
    TooLargeError,
    TooManyRequestsError,
    UnavailableError,
    from_body,
)
from storage_agent.promql.errors import PromqlError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (408, SlowRequestError),
        (413, TooLargeError),
        (429, TooManyRequestsError),
        (502, UnavailableError),
        (503, UnavailableError),
        (504, UnavailableError),
        # A proxy may answer 404 while the service is away.
        (404, MistbowError),
        (500, MistbowError),
    ],
)
def test_answer_of_a_proxy_has_the_error_of_its_status(status: int, kind: type[Exception]) -> None:
    error = from_body(status, "<html>Request Entity Too Large</html>")
    assert type(error) is kind
    assert error.message == f"the service answered with status {status}"


def test_code_of_an_answer_determines_its_error() -> None:
    assert type(from_body(409, {"error": {"code": "fenced", "message": "m"}})) is FencedError


def test_quoted_input_is_bounded_in_all_forms_of_an_error() -> None:
    error = NotFoundError("no stream " + "x" * 60_000 + " here", hint="y" * 60_000)
    assert max(map(len, (str(error), error.message, error.hint or "", error.text))) < 10_000
    assert error.message.startswith("no stream xx")
    assert error.message.endswith("xx here")
    assert len(PromqlError("x" * 60_000).body()["error"]) < 10_000
