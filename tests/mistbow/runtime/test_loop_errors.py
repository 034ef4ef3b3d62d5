import asyncio
from pathlib import Path

import msgspec
import pytest
from fastapi import FastAPI

from mistbow.settings import ServiceSettings
from mistbow.telemetry import set_up_logging
from tests.support.http_server import plain_service


class _FailingProtocol(asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        raise asyncio.CancelledError(len(data))


async def _fail_in_callbacks(app: FastAPI) -> None:
    """Run the lifespan of a service, in which a protocol and a forgotten task fail."""
    loop = asyncio.get_running_loop()
    async with app.router.lifespan_context(app):
        server = await loop.create_server(_FailingProtocol, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"x")
        assert await reader.read() == b""
        writer.close()
        server.close()
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)


@pytest.mark.usefixtures("own_handlers")
def test_failed_callback_is_logged_as_one_line_without_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("test", tmp_path, "info")
    app = plain_service(ServiceSettings(home=tmp_path))
    asyncio.run(_fail_in_callbacks(app))
    events = [
        msgspec.json.decode(line)
        for line in (tmp_path / "logs" / "test.jsonl").read_text().splitlines()
    ]
    assert [event["event"] for event in events] == ["callback_failed"] * 2
    assert [event["error"] for event in events] == [
        "CancelledError(1)",
        "ZeroDivisionError('division by zero')",
    ]
    assert all(f"{Path(__file__).name}:" in event["at"] for event in events)
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 2
    assert "Traceback" not in printed
