"""The name resolver, with a look-up function that the test delays and lets fail."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from mistbow import name_resolver
from mistbow.name_resolver import NameResolver, UnresolvedNameError
from tests.support.conditions import aeventually, eventually

START_MS = 1_764_000_000_000  # 2025-11-24T16:00:00Z


class NameServer:
    """A look-up function; names in ``silent`` wait until ``release`` is set."""

    def __init__(self) -> None:
        self.addresses: dict[str, tuple[str, ...]] = {"edge": ("10.0.0.1", "10.0.0.2")}
        self.silent: set[str] = set()
        self.release = threading.Event()
        self.asked: list[str] = []

    def __call__(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if host in self.silent:
            self.release.wait(30)
        if host not in self.addresses:
            raise OSError(-2, "Name or service not known")
        return self.addresses[host]


class ManualTimer:
    """A monotonic time that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[NameServer]:
    server = NameServer()
    yield server
    server.release.set()


@pytest.fixture
def timer() -> ManualTimer:
    return ManualTimer()


@pytest.fixture
def names(server: NameServer, timer: ManualTimer) -> NameResolver:
    return NameResolver(server, timer, lambda: START_MS + int((timer.now - 1000) * 1000))


def failure(resolve: Callable[[], object]) -> str:
    with pytest.raises(UnresolvedNameError) as caught:
        resolve()
    return str(caught.value)


def test_ip_address_is_returned_without_a_look_up(names: NameResolver, server: NameServer) -> None:
    assert names.resolve("10.1.2.3", 0.0) == ("10.1.2.3",)
    assert names.resolve("fe80::1%eth0", 0.0) == ("fe80::1%eth0",)
    assert server.asked == []


async def test_sync_and_async_callers_get_the_addresses(names: NameResolver) -> None:
    assert names.resolve("edge", 10) == ("10.0.0.1", "10.0.0.2")
    assert await names.resolve_async("edge", None) == ("10.0.0.1", "10.0.0.2")
    assert names.problems() == []


def test_concurrent_callers_share_one_look_up(server: NameServer) -> None:
    names = NameResolver(server)
    server.silent.add("edge")
    found: list[tuple[str, ...]] = []
    callers = [
        threading.Thread(target=lambda: found.append(names.resolve("edge", 20))) for _ in range(20)
    ]
    for caller in callers:
        caller.start()
    eventually(lambda: server.asked)
    server.release.set()
    for caller in callers:
        caller.join(20)
    assert found == [("10.0.0.1", "10.0.0.2")] * 20
    assert server.asked == ["edge"]


async def test_cancelled_caller_does_not_end_the_look_up_of_another(server: NameServer) -> None:
    names = NameResolver(server)
    server.silent.add("edge")
    first = asyncio.create_task(names.resolve_async("edge", 20))
    second = asyncio.create_task(names.resolve_async("edge", 20))
    await aeventually(lambda: asyncio.sleep(0, bool(server.asked)))
    first.cancel()
    server.release.set()
    assert await second == ("10.0.0.1", "10.0.0.2")
    assert first.cancelled()


def test_failure_is_remembered_until_the_next_attempt(
    names: NameResolver, server: NameServer, timer: ManualTimer
) -> None:
    message = (
        "the name gone has not resolved since 2025-11-24T16:00:00+00:00 (Name or service not "
        "known); the next look-up is at {}"
    )
    first = failure(lambda: names.resolve("gone", 10))
    assert first == message.format("2025-11-24T16:00:00+00:00")
    timer.now += 0.4
    failure(lambda: names.resolve("gone", 10))
    assert server.asked == ["gone"]
    pauses = []
    for _ in range(6):
        begin = timer.now
        count = len(server.asked)
        while len(server.asked) == count:
            timer.now += 0.1
            last = failure(lambda: names.resolve("gone", 10))
        pauses.append(round(timer.now - begin, 1))
    assert pauses == [pytest.approx(pause, abs=0.25) for pause in (0.1, 1, 2, 4, 5, 5)]
    assert last.startswith("the name gone has not resolved since 2025-11-24T16:00:00+00:00 (")
    assert names.problems() == [last]


def test_name_resolves_again_after_failures(
    names: NameResolver, server: NameServer, timer: ManualTimer
) -> None:
    failure(lambda: names.resolve("late", 10))
    server.addresses["late"] = ("10.0.0.9",)
    timer.now += 1
    assert names.resolve("late", 10) == ("10.0.0.9",)
    assert names.problems() == []


def test_last_addresses_are_used_after_a_failure(
    names: NameResolver, server: NameServer, timer: ManualTimer
) -> None:
    before = names.resolve("edge", 10)
    del server.addresses["edge"]
    assert names.resolve("edge", 10) == before
    eventually(lambda: names.problem("edge"))
    assert names.resolve("edge", 10) == before
    (problem,) = names.problems()
    assert problem.endswith("; its last addresses are used")
    timer.now += 10.1
    assert names.problems() == [], "nobody uses the name any more"


def test_last_addresses_are_used_during_a_slow_look_up(server: NameServer) -> None:
    names = NameResolver(server)
    before = names.resolve("edge", 10)
    server.silent.add("edge")
    begin = time.monotonic()
    for _ in range(50):
        assert names.resolve("edge", 10) == before
    assert time.monotonic() - begin < 5
    assert server.asked == ["edge", "edge"]
    assert names.problems() == []


def test_requests_fail_at_once_during_a_slow_look_up(
    names: NameResolver, server: NameServer, timer: ManualTimer
) -> None:
    server.silent.add("slow")
    failure(lambda: names.resolve("slow", 0.05))
    eventually(lambda: server.asked)
    timer.now += 3
    begin = time.monotonic()
    assert failure(lambda: names.resolve("slow", 2.5)) == (
        "the name slow has not resolved since 2025-11-24T16:00:00+00:00 (the name server has not "
        "answered); a look-up is in progress"
    )
    assert time.monotonic() - begin < 2
    timer.now += 7
    server.release.set()
    eventually(lambda: "next look-up" in (names.problem("slow") or ""))
    # The pause is at least as long as the look-up was.
    assert "next look-up is at 2025-11-24T16:00:20" in failure(lambda: names.resolve("slow", 1))
    assert server.asked == ["slow"]


def test_slow_names_leave_threads_for_other_names(server: NameServer, timer: ManualTimer) -> None:
    names = NameResolver(server, timer)
    slow = [f"slow-{number}" for number in range(40)]
    for name in slow:
        failure(lambda name=name: names.resolve(name, 10))  # type: ignore[misc]
    server.silent.update(slow)
    timer.now += 60
    for name in slow:
        failure(lambda name=name: names.resolve(name, 0))  # type: ignore[misc]
    eventually(lambda: len(server.asked) >= 44)
    assert names.resolve("edge", 10) == ("10.0.0.1", "10.0.0.2")
    assert len(server.asked) == 45


def test_names_that_are_not_used_are_forgotten(
    names: NameResolver, server: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(name_resolver, "MAX_NAMES", 2)
    server.addresses |= {"a": ("10.0.0.3",), "b": ("10.0.0.4",)}
    for host in ("a", "edge", "b"):
        names.resolve(host, 10)
    del server.addresses["a"]
    failure(lambda: names.resolve("a", 10))
    server.silent |= {"c", "d"}
    for host in ("c", "d"):
        failure(lambda host=host: names.resolve(host, 0))  # type: ignore[misc]
    assert failure(lambda: names.resolve("e", 0)) == "2 other names are being looked up"


def test_refused_thread_is_a_failed_look_up(
    names: NameResolver, timer: ManualTimer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert "(can't start new thread)" in failure(lambda: names.resolve("edge", 10))
    timer.now += 1
    assert names.resolve("edge", 10) == ("10.0.0.1", "10.0.0.2")


def test_malformed_name_does_not_resolve() -> None:
    for malformed in ("x" * 64 + ".test", "a\0.test"):
        message = failure(lambda host=malformed: NameResolver().resolve(host, 10))  # type: ignore[misc]
        assert "has not resolved since" in message
