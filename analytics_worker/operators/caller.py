"""Calls operators of other packages, such that a failing operator affects no other operator."""

import os
import select
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
from cachetools import LRUCache

from analytics import sandbox
from analytics.operators import child
from analytics.operators.child import LENGTH_BYTES, Answer, OperatorCall
from analytics.operators.interface import InstalledOperator
from analytics.operators.registry import installed
from analytics.packages import packages
from analytics.plan.expressions import Scalar
from analytics_worker.operators.points import Floats

LIMIT_S = 2.0
"""The time limit (s) for all windows of a tick, to which ``WINDOW_S`` is added for each window.

All results of the tick wait for the answers, so the limit is short; a node may be busy, so the
limit is not shorter.
"""

WINDOW_S = 0.001
"""The time (s) that is added to the limit for each window, since a tick may have thousands of keys.
A small window takes half of this time.
"""

LOADING_S = 10.0
"""The time limit (s) for loading an operator before its first call in a process."""

_EXIT_S = 1.0
"""The time (s) to wait for the exit code of a process that has closed its pipe."""

RETRY_S = 30.0
"""The time (s) after a failure until the operator is called again, since each call may take its
whole time limit.
"""

_MAX_DERIVED = 10_000

_derived: LRUCache[tuple[object, ...], Answer] = LRUCache(_MAX_DERIVED)
"""(operator, version, attributes with their types) -> the answer."""

_derived_lock = threading.Lock()

_decoder = msgspec.msgpack.Decoder(Answer)


class NoAnswerError(Exception):
    """Raised if an operator gives no answer: the operator exceeded its time limit, or its process
    died.
    """


@dataclass(slots=True)
class _TimeBudget:
    """The time limit (s) for all answers of a tick, and the remaining time (s)."""

    seconds: float
    left: float


def _budgets(ticks: Sequence[int], limit_s: float) -> dict[int, _TimeBudget]:
    seconds = {tick: limit_s + WINDOW_S * count for tick, count in Counter(ticks).items()}
    return {tick: _TimeBudget(each, each) for tick, each in seconds.items()}


def call(
    name: str,
    version: str,
    parameters: Sequence[float],
    windows: Sequence[Sequence[Floats]],
    limit_s: float = LIMIT_S,
    ticks: Sequence[int] | None = None,
) -> list[Answer]:
    """Return an operator's answer for each window.

    ``windows``: for each window, an array of values for each metric that the operator receives.
    ``ticks``: the tick of each window; None: all windows have the same tick. All answers of a tick
    together may take ``limit_s``, and ``WINDOW_S`` more for each window. If the operator gave no
    answer for a window, ``problem`` of the answer contains the reason. After the limit or a crash,
    all remaining windows get such an answer; earlier answers are returned.
    """
    operator = installed().version(name, version)
    if operator is None:
        return [Answer(problem="the operator is not installed on this worker")] * len(windows)
    given = dict(zip(operator.parameters, parameters, strict=False))
    of_ticks = [0] * len(windows) if ticks is None else ticks
    requests = [
        OperatorCall(
            operator.entry_point,
            given,
            tuple(np.asarray(each, np.float64).tobytes() for each in values),
            0,
        )
        for values in windows
    ]
    return _caller().answers(operator, requests, of_ticks, limit_s)


def derive(
    name: str, version: str, attributes: tuple[Scalar, ...], limit_s: float = LIMIT_S
) -> Answer:
    """Return the value that an operator derives from the attributes of a point.

    Answers without a problem are stored, since ``derive`` is pure.
    """
    # Of equal keys, 1.0 and True are different attributes.
    key = (name, version, *((type(each), each) for each in attributes))
    with _derived_lock:
        known = _derived.get(key)
    if known is not None:
        return known
    operator = installed().version(name, version)
    if operator is None:
        return Answer(problem="the operator is not installed on this worker")
    request = OperatorCall(operator.entry_point, {}, (), 0, attributes)
    (answer,) = _caller().answers(operator, [request], [0], limit_s)
    if answer.problem is None:
        with _derived_lock:
            _derived[key] = answer
    return answer


@cache
def _caller() -> "_Caller":
    return _Caller()


class _Caller:
    """Calls operators in a sandbox process, which is restarted after an operator hangs or crashes.

    After such a failure, the operator is not called for ``RETRY_S``. Threads call operators one
    after the other, since the process answers requests in order.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._loaded: set[InstalledOperator] = set()
        self._suspended: dict[InstalledOperator, tuple[float, str]] = {}
        self._packages = packages()

    def answers(
        self,
        operator: InstalledOperator,
        requests: Sequence[OperatorCall],
        ticks: Sequence[int],
        limit_s: float,
    ) -> list[Answer]:
        """Return an operator's answer to each request, as described for ``call``.

        ``ticks``: the tick of each request.
        """
        with self._lock:
            return self._answers(operator, requests, ticks, limit_s)

    def _answers(
        self,
        operator: InstalledOperator,
        requests: Sequence[OperatorCall],
        ticks: Sequence[int],
        limit_s: float,
    ) -> list[Answer]:
        if self._packages != packages():
            # The process may have loaded another version.
            self._packages = packages()
            self._suspended.clear()
            if self._child is not None:
                self._kill(self._child)
        answers: list[Answer] = []
        until, reason = self._suspended.get(operator, (0.0, ""))
        if time.monotonic() >= until:
            try:
                self._load(operator)
                budgets = _budgets(ticks, limit_s)
                for tick, request in zip(ticks, requests, strict=True):
                    answers.append(self._call(request, budgets[tick]))
            except NoAnswerError as error:
                reason = f"{error}; the operator is called again after {RETRY_S:g} s"
                self._suspended[operator] = time.monotonic() + RETRY_S, reason
        return answers + [Answer(problem=reason)] * (len(requests) - len(answers))

    def _load(self, operator: InstalledOperator) -> None:
        if operator not in self._loaded:
            request = OperatorCall(operator.entry_point, {}, (), 0)
            self._call(request, _TimeBudget(LOADING_S, LOADING_S))
            self._loaded.add(operator)

    def _call(self, request: OperatorCall, budget: _TimeBudget) -> Answer:
        began = time.monotonic()
        child = self._running()
        request = msgspec.structs.replace(request, seconds=int(budget.seconds) + 1)
        try:
            answer = _exchange(child, msgspec.msgpack.encode(request), began + budget.left)
        except TimeoutError:
            self._kill(child)
            raise NoAnswerError(
                f"the operator gave no answer within {budget.seconds:.3g} s"
            ) from None
        except (OSError, EOFError):
            _await_exit(child)
            self._kill(child)
            raise NoAnswerError(
                f"the operator's process ended before it answered (exit code {child.returncode})"
            ) from None
        budget.left -= time.monotonic() - began
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None:
            self._child = sandbox.start(child.__name__, ["call"])
        return self._child

    def _kill(self, child: subprocess.Popen[bytes]) -> None:
        sandbox.kill(child)
        child.communicate()
        self._child = None
        self._loaded.clear()


def _await_exit(child: subprocess.Popen[bytes]) -> None:
    """Wait until a process has exited, at most for ``_EXIT_S``.

    The process is not reaped, so its process group can still be killed.
    """
    ended = os.pidfd_open(child.pid)
    try:
        select.select([ended], [], [], _EXIT_S)
    finally:
        os.close(ended)


def _exchange(child: subprocess.Popen[bytes], request: bytes, deadline: float) -> Answer:
    """Send a call to a process, and return the answer.

    Raises ``TimeoutError`` at the ``deadline`` (s, monotonic), and ``OSError`` or ``EOFError`` if
    the process has closed its pipes.
    """
    assert child.stdin is not None and child.stdout is not None  # noqa: S101,PT018 - both are pipes
    # The process reads a call before it runs anything, so the pipe is not full for long.
    child.stdin.write(len(request).to_bytes(LENGTH_BYTES, "little") + request)
    child.stdin.flush()
    length = int.from_bytes(_read(child.stdout.fileno(), LENGTH_BYTES, deadline), "little")
    return _decoder.decode(_read(child.stdout.fileno(), length, deadline))


def _read(pipe: int, count: int, deadline: float) -> bytes:
    read = b""
    while len(read) < count:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        part = os.read(pipe, count - len(read))
        if not part:
            raise EOFError
        read += part
    return read
