"""Look-ups of host names that do not block callers if the name server is slow.

The system's function blocks a thread until the name server answers, often for 10 s and more. So
look-ups have their own threads, at most one for each name. A caller waits only for a bounded time,
and uses the last known addresses of the name while there is no new answer.
"""

import asyncio
import concurrent.futures
import contextlib
import ipaddress
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import httpx

from mistbow.clock import Clock, system_clock
from mistbow.telemetry import get_logger

log = get_logger(__name__)

LookUp = Callable[[str], tuple[str, ...]]
"""A function that returns the IP addresses of a host name; raises any error."""

MAX_NAMES = 1024
"""The maximum number of names that a resolver remembers."""

_MAX_THREADS = 32
_MAX_TROUBLED_THREADS = 4
_FRESH_ANSWER_S = 0.2
"""How long a caller waits for a look-up if the name already had addresses."""
_SLOW_S = 1.0
"""The duration from which a look-up is slow."""
_FIRST_PAUSE_S = 0.5
_MAX_PAUSE_S = 5.0
_RECENT_S = 10.0
"""How long after its last use a name is reported as a problem."""


class UnresolvedNameError(httpx.ConnectError):
    """A host name has no known address, so no connection was attempted."""


def system_look_up(host: str) -> tuple[str, ...]:
    """Return the IP addresses of a host name, by the system's function."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in found))


class _ThreadPool:
    """Runs functions in at most ``size`` threads, which do not delay the end of the process."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0

    def run(self, function: Callable[[], None]) -> None:
        """Run a function that raises no errors as soon as a thread is free.

        Raises ``RuntimeError`` if the machine refuses another thread.
        """
        with self._lock:
            self._waiting.append(function)
            if self._threads == self._size:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="name look-up", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if function not in self._waiting:
                    return  # another thread has taken it
                self._waiting.remove(function)
            raise

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                function = self._waiting.popleft()
            # An error, for example of the log, must not end the thread: others wait for it.
            with contextlib.suppress(Exception):
                function()


def _running_future() -> "concurrent.futures.Future[None]":
    future: concurrent.futures.Future[None] = concurrent.futures.Future()
    # So that no waiting caller can cancel the look-up of the others.
    future.set_running_or_notify_cancel()
    return future


@dataclass(frozen=True, slots=True)
class _Lookup:
    """A look-up in flight. ``begun_at``: a time (monotonic)."""

    begun_at: float
    done: "concurrent.futures.Future[None]" = field(default_factory=_running_future)


@dataclass(slots=True)
class _Name:
    """The state of a name; all times are monotonic.

    ``addresses``: the result of the last successful look-up. ``failing_since``: when the first
    failed look-up after that began. ``retry_at``: the time before which no look-up begins.
    """

    addresses: tuple[str, ...] = ()
    lookup: _Lookup | None = None
    asked_at: float = 0.0
    failing_since: float | None = None
    failures: int = 0
    error: str = ""
    retry_at: float = 0.0
    is_slow: bool = False


class NameResolver:
    """Resolves host names for all clients of a process.

    ``look_up``: called in a thread. ``timer``: a monotonic time (s); ``clock``: for messages.
    """

    def __init__(
        self,
        look_up: LookUp = system_look_up,
        timer: Callable[[], float] = time.monotonic,
        clock: Clock = system_clock,
    ) -> None:
        self._look_up = look_up
        self._timer = timer
        self._clock = clock
        self._lock = threading.Lock()
        self._names: OrderedDict[str, _Name] = OrderedDict()
        self._threads = _ThreadPool(_MAX_THREADS)
        # Names that failed, or were slow, never take the threads of other names.
        self._troubled_threads = _ThreadPool(_MAX_TROUBLED_THREADS)

    def resolve(self, host: str, timeout_s: float | None) -> tuple[str, ...]:
        """Return the IP addresses of a host, at least one; blocks for at most ``timeout_s``.

        Raises ``UnresolvedNameError`` if the host has no known address.
        """
        if _is_ip_address(host):
            return (host,)
        name, lookup = self._ask(host)
        if lookup is not None:
            concurrent.futures.wait([lookup.done], self._wait_s(name, lookup, timeout_s))
        return self._addresses(host, name)

    async def resolve_async(self, host: str, timeout_s: float | None) -> tuple[str, ...]:
        """Return the IP addresses of a host; see ``resolve``."""
        if _is_ip_address(host):
            return (host,)
        name, lookup = self._ask(host)
        if lookup is not None:
            done = asyncio.wrap_future(lookup.done)
            try:
                await asyncio.wait([done], timeout=self._wait_s(name, lookup, timeout_s))
            finally:
                done.cancel()
        return self._addresses(host, name)

    def problem(self, host: str) -> str | None:
        """Return why a name does not resolve, since when, and when it is looked up again.

        Returns None if nothing is wrong with the name, or if it was not used recently.
        """
        with self._lock:
            name = self._names.get(host)
            if name is None or self._timer() - name.asked_at > _RECENT_S:
                return None
            return self._describe(host, name) if self._has_problem(name) else None

    def problems(self) -> list[str]:
        """Return the problem of each name in use that does not resolve; see ``problem``."""
        with self._lock:
            hosts = sorted(self._names)
        return [problem for host in hosts if (problem := self.problem(host)) is not None]

    def _ask(self, host: str) -> tuple[_Name, _Lookup | None]:
        """Return a name and its look-up in flight, after beginning the look-up if one is due.

        The look-up is None between a failed look-up and the next one.
        """
        with self._lock:
            now = self._timer()
            name = self._remember(host)
            name.asked_at = now
            if name.lookup is not None or now < name.retry_at:
                return name, name.lookup
            lookup = name.lookup = _Lookup(now)
            is_troubled = name.is_slow or name.failures > 0
        pool = self._troubled_threads if is_troubled else self._threads
        try:
            pool.run(lambda: self._run(host, name))
        except RuntimeError as error:
            self._finish(host, name, (), str(error), 0.0)
        return name, lookup

    def _remember(self, host: str) -> _Name:
        name = self._names.get(host)
        if name is None:
            if len(self._names) >= MAX_NAMES:
                self._forget_oldest()
            name = self._names[host] = _Name()
        self._names.move_to_end(host)
        return name

    def _forget_oldest(self) -> None:
        for host, name in self._names.items():
            if name.lookup is None:
                del self._names[host]
                return
        raise UnresolvedNameError(f"{MAX_NAMES} other names are being looked up")

    def _wait_s(self, name: _Name, lookup: _Lookup, timeout_s: float | None) -> float | None:
        # From the beginning of the look-up: who comes later must not wait for it once more.
        patience = _FRESH_ANSWER_S if name.addresses else timeout_s
        if patience is None:
            return None
        return max(0.0, lookup.begun_at + patience - self._timer())

    def _addresses(self, host: str, name: _Name) -> tuple[str, ...]:
        with self._lock:
            if not name.addresses:
                raise UnresolvedNameError(self._describe(host, name))
            return name.addresses

    def _run(self, host: str, name: _Name) -> None:
        begun_at = self._timer()
        addresses: tuple[str, ...] = ()
        error = "it has no address"
        try:
            addresses = self._look_up(host)
        except Exception as problem:  # whatever it is, the waiting callers must go on
            error = getattr(problem, "strerror", None) or str(problem)
        self._finish(host, name, addresses, error, self._timer() - begun_at)

    def _finish(
        self, host: str, name: _Name, addresses: tuple[str, ...], error: str, duration_s: float
    ) -> None:
        """Record the result of the look-up in flight: ``addresses``, or ``error`` without any."""
        with self._lock:
            lookup, was_failing = name.lookup, name.failures > 0
            assert lookup is not None  # noqa: S101 - only this method ends it
            name.lookup, name.is_slow = None, duration_s >= _SLOW_S
            if addresses:
                name.addresses, name.failing_since = addresses, None
                name.failures, name.error, name.retry_at = 0, "", 0.0
            else:
                self._record_failure(name, lookup, error, duration_s)
        lookup.done.set_result(None)
        if addresses and was_failing:
            log.info("name_resolved", name=host)
        elif not addresses and not was_failing:
            log.warning("name_unresolved", name=host, error=error)

    def _record_failure(self, name: _Name, lookup: _Lookup, error: str, duration_s: float) -> None:
        pause = min(_FIRST_PAUSE_S * 2 ** min(name.failures, 10), _MAX_PAUSE_S)
        # After a slow failure at least its duration: a name uses a thread half of the time at most.
        name.retry_at = self._timer() + max(pause, duration_s)
        name.failures += 1
        name.error = error
        if name.failing_since is None:
            name.failing_since = lookup.begun_at

    def _has_problem(self, name: _Name) -> bool:
        if name.failures > 0:
            return True
        lookup = name.lookup
        is_overdue = lookup is not None and self._timer() - lookup.begun_at >= _SLOW_S
        return is_overdue and not name.addresses

    def _describe(self, host: str, name: _Name) -> str:
        since = name.failing_since
        if since is None:
            since = self._timer() if name.lookup is None else name.lookup.begun_at
        if name.lookup is not None:
            then = "a look-up is in progress"
        else:
            then = f"the next look-up is at {self._time_of(name.retry_at)}"
        text = (
            f"the name {host} has not resolved since {self._time_of(since)} "
            f"({name.error or 'the name server has not answered'}); {then}"
        )
        return f"{text}; its last addresses are used" if name.addresses else text

    def _time_of(self, moment: float) -> str:
        seconds = self._clock() / 1000 + moment - self._timer()
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


NAMES: Final = NameResolver()
"""The resolver of this process, so that all clients share one look-up of a name."""


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
