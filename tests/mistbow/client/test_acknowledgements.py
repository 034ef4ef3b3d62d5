"""Answers to appends from services that are not storage agents, such as the login of a gateway."""

import pytest
from fastapi import FastAPI, Response

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import UnavailableError
from tests.support.http_server import served


@pytest.mark.parametrize("content", [b"", b"<html>login</html>", b"{}", b'{"result": "ERROR"}'])
def test_append_is_stored_only_if_the_answer_acknowledges_it(content: bytes) -> None:
    app = FastAPI()

    @app.post("/put")
    async def put() -> Response:
        return Response(content)

    with served(app) as url:
        client = AgentClient(url)
        with pytest.raises(UnavailableError, match="acknowledges nothing"):
            client.put([Point(metric="m", entity="e", ts=1, value=1.0)])
        client.close()
