"""The parameters that deletions accept in their URLs."""

import pytest
from fastapi import Request

from mistbow.errors import InvalidRequestError
from mistbow.http.parameters import only_parameters


def request(query: str) -> Request:
    return Request({"type": "http", "headers": [], "query_string": query.encode()})


@pytest.mark.parametrize("query", ["", "target=a", "force=true&target=a"])
async def test_known_parameters_are_accepted(query: str) -> None:
    await only_parameters("target", "force")(request(query))


@pytest.mark.parametrize(
    ("query", "known", "hint"),
    [
        ("targt=a", ("target", "force"), "Did you mean target?"),
        ("dry_run=true", ("target", "force"), "It has target, force."),
        ("dry_run=true", (), "It has none."),
        ("site=", ("site",), "Name a site, or omit the parameter"),
    ],
)
async def test_unknown_parameter_is_refused_with_a_hint(
    query: str, known: tuple[str, ...], hint: str
) -> None:
    with pytest.raises(InvalidRequestError, match="nothing was done") as refused:
        await only_parameters(*known)(request(query))
    assert (refused.value.hint or "").startswith(hint)
