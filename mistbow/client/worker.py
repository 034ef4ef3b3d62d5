"""The client of the analytics worker: which fragments run there, and how far they are."""

from pathlib import Path
from urllib.parse import quote

import httpx
import msgspec

from mistbow.client.transport import AsyncTransport, Call, Transport
from mistbow.plan.fragments import Fragment
from mistbow.plan.status import FragmentStatus


def _one(response: httpx.Response) -> FragmentStatus:
    return msgspec.json.decode(response.content, type=FragmentStatus)


def _many(response: httpx.Response) -> list[FragmentStatus]:
    return msgspec.json.decode(response.content, type=list[FragmentStatus])


def _nothing(_: httpx.Response) -> None:
    return None


def _path(fragment_id: str) -> str:
    return f"/fragments/{quote(fragment_id, safe='')}"


def run(fragment: Fragment) -> Call[FragmentStatus]:
    """Ask to run a fragment, in place of the one of the same id if there is one."""
    return Call(
        "PUT",
        _path(fragment.id),
        _one,
        content=msgspec.json.encode(fragment),
        headers={"Content-Type": "application/json"},
        repeatable=True,
    )


def show(fragment_id: str) -> Call[FragmentStatus]:
    """Ask for the status of one fragment."""
    return Call("GET", _path(fragment_id), _one, repeatable=True)


def list_all() -> Call[list[FragmentStatus]]:
    """Ask for the status of every fragment."""
    return Call("GET", "/fragments", _many, repeatable=True)


def stop(fragment_id: str) -> Call[None]:
    """Ask to stop a fragment and forget it."""
    return Call("DELETE", _path(fragment_id), _nothing, repeatable=True)


class WorkerClient:
    """An analytics worker, by HTTP; every call raises ``MistbowError`` when it fails."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        attempts: int = 3,
        ca: Path | str | None = None,
    ) -> None:
        self._transport = Transport(url, token=token, attempts=attempts, ca=ca)

    def run(self, fragment: Fragment) -> FragmentStatus:
        """Run a fragment, in place of the one of the same id if there is one."""
        return self._transport.send(run(fragment))

    def show(self, fragment_id: str) -> FragmentStatus:
        """Return the status of one fragment; raises ``NotFoundError`` for an unknown one."""
        return self._transport.send(show(fragment_id))

    def list(self) -> list[FragmentStatus]:
        """Return the status of every fragment."""
        return self._transport.send(list_all())

    def stop(self, fragment_id: str) -> None:
        """Stop a fragment and forget it."""
        self._transport.send(stop(fragment_id))

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


class AsyncWorkerClient:
    """Does as ``WorkerClient``, from coroutines."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        attempts: int = 3,
        ca: Path | str | None = None,
    ) -> None:
        self._transport = AsyncTransport(url, token=token, attempts=attempts, ca=ca)

    async def run(self, fragment: Fragment) -> FragmentStatus:
        """Do as ``WorkerClient.run``."""
        return await self._transport.send(run(fragment))

    async def show(self, fragment_id: str) -> FragmentStatus:
        """Do as ``WorkerClient.show``."""
        return await self._transport.send(show(fragment_id))

    async def list(self) -> list[FragmentStatus]:
        """Do as ``WorkerClient.list``."""
        return await self._transport.send(list_all())

    async def stop(self, fragment_id: str) -> None:
        """Do as ``WorkerClient.stop``."""
        await self._transport.send(stop(fragment_id))

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()
