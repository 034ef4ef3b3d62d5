"""Changes of a stream that Ignite does not answer, and that it makes at once, late, or never."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ignite_server.server import IgniteServer
from mistbow.errors import UnavailableError
from storage_agent.streams import writer
from storage_agent.streams.log import StreamLog
from storage_agent.streams.writer import Writer
from tests.storage_agent.conftest import ManualClock
from tests.storage_agent.silent_ignite import SilentIgnite
from tests.storage_agent.streams.opener import Opener, rows, times
from tests.support.conditions import aeventually

Change = Callable[[Writer], Awaitable[object]]

CHANGES: dict[str, Change] = {
    "append": lambda writer: writer.append(rows(2)),
    "claim": lambda writer: writer.claim(),
    "attributes and frontier": lambda writer: writer.advance(None, 9, {"a": 1}),
    "deletion": lambda writer: writer.delete(min_ts=1, max_ts=1),
}

arrival = pytest.mark.parametrize("arrives", [True, False], ids=["at once", "late"])


@pytest.fixture
async def silent(
    ignite: IgniteServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[SilentIgnite]:
    monkeypatch.setattr(writer, "_COMMIT_S", 0.0)
    async with SilentIgnite.connected_to(ignite) as client:
        yield client


@pytest.fixture
async def opener(silent: SilentIgnite, clock: ManualClock) -> AsyncIterator[Opener]:
    opener = Opener(silent, clock)
    yield opener
    for stream in opener.opened:
        await stream.writer.close()


async def send_unanswered(
    silent: SilentIgnite, change: Awaitable[object], *, arrives: bool
) -> None:
    silent.is_silent, silent.arrives = True, arrives
    with pytest.raises(UnavailableError):
        await change
    silent.is_silent = False


async def content(log: StreamLog) -> tuple[object, ...]:
    state, tombstones = log.state.current, log.manifest.current.tombstones
    return log.head, log.epoch, log.frontier, await times(log), state, tombstones


async def is_settled(log: StreamLog) -> bool:
    return not log.is_uncertain


@arrival
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_unanswered_change_is_made_for_this_agent_and_the_next_or_for_none(
    opener: Opener, silent: SilentIgnite, change: Change, arrives: bool
) -> None:
    stream = await opener.open()
    await stream.writer.append(rows(1))
    before = await content(stream.log)
    await send_unanswered(silent, change(stream.writer), arrives=arrives)
    await aeventually(lambda: is_settled(stream.log), what="the outcome is known")
    await silent.deliver()
    found = await content(stream.log)
    assert found == await content((await opener.open()).log)
    assert (found[1:] != before[1:]) == arrives


@arrival
async def test_next_append_finds_the_frontier_and_epoch_of_unanswered_changes(
    opener: Opener, silent: SilentIgnite, arrives: bool
) -> None:
    stream = await opener.open()
    epoch = (await stream.writer.claim()).epoch
    await send_unanswered(silent, stream.writer.advance(epoch, 9), arrives=arrives)
    result = await stream.writer.append(rows(1), epoch=epoch)
    assert result.frontier == (9 if arrives else 0)
    await silent.deliver()
    assert (await opener.open()).log.frontier == result.frontier


async def test_writes_that_were_not_sent_leave_nothing_to_settle(
    opener: Opener, silent: SilentIgnite
) -> None:
    stream = await opener.open()
    await stream.writer.append(rows(1))
    await silent.close()
    for change in CHANGES.values():
        with pytest.raises(UnavailableError, match="Ignite is unavailable"):
            await change(stream.writer)
    assert not stream.log.is_uncertain
