"""A whole worker without Spark: its announced capacity, the fragments that it admits, its end."""

import asyncio
import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from fastapi import FastAPI, Request
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from analytics.client.worker import WorkerClient
from analytics.plan.orders import Lease, order_of
from analytics_worker.lifecycle.kill_record import STEP_MS
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.worker import AnalyticsWorker
from analytics_worker.main import create_app
from analytics_worker.settings import WorkerSettings
from analytics_worker.streaming_library import StreamingLibrary
from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.domains import DEFAULT_DOMAIN
from mistbow.errors import CapacityError, StartingError
from mistbow.fabric import Worker
from tests.analytics_worker.lifecycle.fragments import merge_of, partial
from tests.support.conditions import aeventually, eventually
from tests.support.http_server import served

PARTIAL = partial("g.0123abcd.n1")


@dataclass
class IdleLibrary:
    """A streaming library that has started, and starts no query."""

    support: Mapping[str, str | None] = field(default_factory=lambda: defaultdict(lambda: None))

    def warm_up(self) -> None:
        pass

    def is_alive(self) -> bool:
        return True

    def adopt_thread(self) -> None:
        pass

    def operator_failures(self) -> Mapping[str, object]:
        return {}

    def set_salience(self, salience: int | None) -> None:
        pass

    def stop(self) -> None:
        pass


@dataclass
class Scene:
    """A worker, the file of its kills, and the announcements that it has sent."""

    worker: AnalyticsWorker
    record: Path
    announced: list[Worker]
    is_stopped: bool = False

    def start(self) -> None:
        self.worker.start()
        eventually(lambda: self.announced, what="an announcement")

    def stop(self) -> None:
        if not self.is_stopped:
            self.is_stopped = True
            self.worker.stop()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    announced: list[Worker] = []
    app = FastAPI()

    @app.put("/workers/{name}", status_code=204)
    async def announce(name: str, request: Request) -> None:
        del name
        announced.append(msgspec.json.decode(await request.body(), type=Worker))

    with served(app) as url:
        settings = WorkerSettings(home=tmp_path, agent_url=url, node="edge 1", drain_s=0.2)
        worker = AnalyticsWorker(settings, lambda _: cast("StreamingLibrary", IdleLibrary()))
        scene = Scene(worker, tmp_path / "worker-edge%201.json", announced)
        yield scene
        scene.stop()


def test_worker_announces_what_is_free_instead_of_the_heap(scene: Scene) -> None:
    scene.start()
    worker = scene.announced[-1]
    assert 0 < worker.memory_free_mb < worker.memory_mb
    assert worker.memory_free_mb not in (768, worker.memory_mb)
    assert worker.limit is None
    assert (worker.cores_free, worker.name) == (worker.cores, "edge 1")


def test_killed_worker_announces_its_limit_and_refuses_the_same_load(scene: Scene) -> None:
    scene.record.write_text('{"fragments": 1, "is_short": true}')
    scene.start()
    worker = scene.announced[-1]
    assert worker.limit is not None
    assert (worker.limit.fragments, worker.limit.ran, worker.memory_free_mb) == (0, 1, 0)
    assert 0 < worker.limit.until - system_clock() <= STEP_MS
    with pytest.raises(CapacityError, match="at most 0 fragments after it was killed"):
        scene.worker.run(PARTIAL)
    answer = scene.worker.obey(DEFAULT_DOMAIN, order_of(Lease(1, 1), [PARTIAL], frozenset()))
    assert answer.without_capacity == {PARTIAL.id} == answer.refused.keys()
    assert "killed for lack of memory with 1" in answer.refused[PARTIAL.id]


def test_stopped_worker_was_not_killed(scene: Scene) -> None:
    scene.start()
    scene.stop()
    assert msgspec.json.decode(scene.record.read_bytes())["fragments"] == 0


async def test_leaving_worker_is_drained_until_its_fragments_are_gone_or_its_time_is_over(
    scene: Scene,
) -> None:
    await asyncio.to_thread(scene.start)
    scene.worker.run(PARTIAL)
    with capture_logs() as logs:
        await scene.worker.leave()
        await asyncio.to_thread(scene.worker.remove, PARTIAL.id)
        await scene.worker.leave()
    assert [each for each in logs if each["event"].startswith("worker_leav")] == [
        {"event": "worker_leaving", "log_level": "info", "fragments": 1},
        {"event": "worker_leave_incomplete", "log_level": "warning", "fragments": [PARTIAL.id]},
    ]
    announced = len(scene.announced)
    await aeventually(lambda: later(scene, announced), what="a later announcement")
    assert scene.announced[-1].drained
    assert not list(scene.record.parent.glob("drained-*"))


async def later(scene: Scene, announced: int) -> bool:
    return len(scene.announced) > announced


def test_worker_lists_its_fragments_to_others_once_its_library_has_started(
    tmp_path: Path,
) -> None:
    may_start = threading.Event()

    def start_slowly(_: WorkerSettings) -> StreamingLibrary:
        may_start.wait(30)
        return cast("StreamingLibrary", IdleLibrary())

    settings = WorkerSettings(home=tmp_path, agent_url="http://127.0.0.1:1", node="edge")
    with served(create_app(settings, start_slowly, CollectorRegistry())) as url:
        client = WorkerClient(url, attempts=1)
        with pytest.raises(StartingError):
            client.list()
        may_start.set()

        def is_empty() -> bool:
            try:
                return client.list() == []
            except StartingError:
                return False

        eventually(is_empty, what="the worker has started")
        client.close()


def test_order_notes_the_orphaned_fragments_and_the_sites_of_a_merge_whose_workers_are_dead(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[tuple[str, Mapping[str, int] | bool]] = []
    monkeypatch.setattr(
        FragmentRunner,
        "note_orphan",
        lambda self, is_orphan: noted.append((self.fragment.id, is_orphan)),
    )
    monkeypatch.setattr(
        FragmentRunner,
        "note_orphaned_sites",
        lambda self, sites: noted.append((self.fragment.id, sites)),
    )
    scene.start()
    merge = merge_of(PARTIAL.id, "g.0123abcd.n2")
    lease, elsewhere = Lease(1, 1), partial("h.0123abcd.n2")
    scene.worker.obey("north", order_of(lease, [elsewhere], frozenset()))
    noted.clear()
    orphaned = frozenset({"g.0123abcd.n2", merge.id, elsewhere.id})
    order = order_of(lease, [PARTIAL, merge], frozenset(), number=7, orphaned=orphaned)
    scene.worker.obey(DEFAULT_DOMAIN, order)
    assert sorted(noted, key=repr) == [
        (PARTIAL.id, False), (merge.id, True), (merge.id, {"g.0123abcd.n2": 7}),
    ]  # fmt: skip
    noted.clear()
    # The former workers were alive after all.
    scene.worker.obey(DEFAULT_DOMAIN, order_of(lease, [PARTIAL, merge], frozenset(), number=8))
    assert (merge.id, False) in noted


def test_slow_stop_delays_no_later_order(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.start()
    stopping, may_stop = threading.Event(), threading.Event()
    stop = FragmentRunner.stop

    def stop_slowly(runner: FragmentRunner) -> None:
        stopping.set()
        may_stop.wait(30)
        stop(runner)

    monkeypatch.setattr(FragmentRunner, "stop", stop_slowly)
    lease, other = Lease(1, 1), partial("g.0123abcd.n2")
    scene.worker.obey(DEFAULT_DOMAIN, order_of(lease, [PARTIAL], frozenset()))
    with ThreadPoolExecutor(1) as pool:
        emptied = pool.submit(scene.worker.obey, DEFAULT_DOMAIN, order_of(lease, [], frozenset()))
        assert stopping.wait(30)
        answer = scene.worker.obey("north", order_of(lease, [other], frozenset()))
        assert [status.id for status in answer.fragments] == [other.id]
        assert not emptied.done()
        may_stop.set()
    assert emptied.result().fragments == []


def test_worker_ends_with_its_library_although_a_site_hangs(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, answers, ends = threading.Event(), threading.Event(), threading.Event()

    def hang(*_: Any) -> None:
        hangs.set()
        answers.wait(30)

    monkeypatch.setattr(AgentClient, "retain", hang)
    monkeypatch.setattr(os, "_exit", lambda _: ends.set())
    scene.start()
    scene.worker.run(PARTIAL)
    try:
        assert hangs.wait(10), "a retention lease is requested"
        monkeypatch.setattr(IdleLibrary, "is_alive", lambda _: False)
        assert ends.wait(10)
    finally:
        answers.set()
