"""The texts of errors for invalid JSON bodies: what is wrong, where, and which values are valid."""

from typing import Any

import msgspec
import pytest

from mistbow.client.operation_model import ConfigChange
from mistbow.errors import InvalidRequestError
from storage_agent.http.decode import decode_body
from storage_agent.http.points import PutBody, QueryBody


def refusal(kind: Any, body: bytes) -> str:
    with pytest.raises(InvalidRequestError) as refused:
        decode_body(msgspec.json.Decoder(kind), body)
    return refused.value.message


def put(**labels: Any) -> bytes:
    good = {"entityID": "e", "metricID": "m", "val": 1, "timestamp": 1}
    bad = {**good, "labels": labels}
    return msgspec.json.encode({"monitoring": [good, bad, good]})


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (QueryBody, b'{"agg": "x"}', "agg: Invalid enum value 'x'; it must be one of avg, max, "),
        (
            ConfigChange,
            b'{"when_full": "x"}',
            "when_full: Invalid enum value 'x'; it must be one of",
        ),
        (QueryBody, b"", "the body is empty"),
        (QueryBody, b" \n", "the body is empty"),
        (QueryBody, b'{"agg": "su', "the JSON of the body ends too early"),
        (QueryBody, b'{"agg": 7}', "agg: Expected `str`, got `int`"),
    ],
)
def test_message_names_the_problem(kind: Any, body: bytes, message: str) -> None:
    assert refusal(kind, body).startswith(message)


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        (
            PutBody,
            put(**{f"l{n}": n for n in range(99)}, bad=[]),
            'monitoring[1].labels["bad"]: Expected',
        ),
        (PutBody, put(**{"": 1}, a=1, b=[]), 'monitoring[1].labels[""]: the name is invalid: Exp'),
        (PutBody, put(**{"x" * 2000: []}), f'monitoring[1].labels["{"x" * 60}…"]: '),
        (ConfigChange, b'{"streams": {"raw": 5000, "a": "x"}}', 'streams["a"]: Expected'),
        (PutBody, put(a="x" * 2**18, b=[]), "monitoring[1].labels[...]: Expected"),
    ],
)
def test_message_names_the_invalid_entry(kind: Any, body: bytes, message: str) -> None:
    assert refusal(kind, body).startswith(message)
