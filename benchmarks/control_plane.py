"""Benchmark of the control plane: heartbeats and memory per site in fogs of up to 1,000 sites.

``python -m benchmarks control_plane`` simulates the network between the agents; the peers and the
heartbeats are those of real agents. A round takes a second in a real fog.
"""

import gc
import tracemalloc
from collections.abc import Iterator

import psutil
import structlog

from analytics_enabler.execution.worker_reconcilers import INTERVAL_S
from benchmarks.report import Figure, Report
from mistbow.fabric import Worker
from mistbow.streams.schemas import EVENTS
from mistbow.streams.wire import Chunk, ChunkEncoder, Position
from storage_agent.membership.facts import SITE as SITE_KEY
from storage_agent.membership.facts import (
    Facts,
    LinkFact,
    SiteFact,
    encode_fact,
    link_key,
    worker_key,
)
from storage_agent.membership.heartbeat_targets import MAX_TARGETS
from storage_agent.streams.pace import HEARTBEAT_S
from storage_agent.streams.segments import empty_batch
from tests.support.simulated_fog import SimulatedFog, Traffic

_SIZES = (10, 100, 1000)
_QUIET_ROUNDS = 10
_CHURN_ROUNDS = 30
_KB = 1024
_HOW = (
    "Agents of simulated sites exchange heartbeats through a network in memory, at first with one "
    "seed. A round takes a second in a fog. Messages are heartbeats and answers, sent and received "
    "by one site. With changes, one site is cut off for 15 of 30 rounds. Facts are those of sites "
    "with one worker each, without series. Messages of subscriptions to metadata, and requests of "
    "an enabler of all sites, follow from their intervals. Measured in one process."
)


def run() -> Report:
    """Measure fogs of all sizes; the largest one takes many minutes and gigabytes."""
    errors_only = structlog.make_filtering_bound_logger(40)
    structlog.configure(wrapper_class=errors_only, cache_logger_on_first_use=True)
    figures = [figure for size in _SIZES for figure in _figures(size)]
    return Report("Control plane", _HOW, figures)


def _figures(size: int) -> Iterator[Figure]:
    what = f"{size:,} sites"
    before = _memory()
    fog = SimulatedFog([f"site-{number}" for number in range(size)])
    everything = set(fog.sites)

    def agrees(expected: set[str]) -> bool:
        return all(fog.reached_by(site) == expected for site in expected)

    joining: list[Traffic] = []
    while not agrees(everything):
        joining.append(fog.run(1))
    yield Figure(f"{what}: until all have direct links", "rounds", [len(joining)])
    joined = [2 * each.size / size / _KB for each in joining]
    yield Figure(f"{what}: bytes per site in these rounds", "KB/s", joined)
    yield Figure(
        f"{what}: largest message in these rounds",
        "KB",
        [max(each.largest for each in joining) / _KB],
    )
    fog.run(2 * size // MAX_TARGETS)
    peers = (_memory() - before) / size
    yield Figure(f"{what}: memory of the peers, per site", "KB", [peers / _KB])
    yield Figure(f"{what}: memory of the facts, per site", "KB", [_facts_bytes(size) / _KB])
    yield from _traffic(f"{what}, quiet", size, fog.run(_QUIET_ROUNDS), _QUIET_ROUNDS)
    # Each site follows the metadata of all others, and all others follow its own.
    subscriptions = 2 * (size - 1) / HEARTBEAT_S
    yield Figure(f"{what}, quiet: messages of subscriptions, per site", "1/s", [subscriptions])
    kilobytes = subscriptions * _idle_chunk_bytes() / _KB
    yield Figure(f"{what}, quiet: bytes of subscriptions, per site", "KB/s", [kilobytes])
    requests = size / INTERVAL_S
    yield Figure(f"{what}: requests of the enabler, with one worker a site", "1/s", [requests])
    lost = fog.sites[size // 2]
    fog.cut(lost)
    cut = fog.run(_CHURN_ROUNDS // 2)
    fog.heal(lost)
    back = fog.run(_CHURN_ROUNDS // 2)
    changed = Traffic(
        cut.messages + back.messages, cut.size + back.size, max(cut.largest, back.largest)
    )
    yield from _traffic(f"{what}, with changes", size, changed, _CHURN_ROUNDS)
    fog.run_until(lambda: agrees(everything))
    fog.cut(lost)
    others = everything - {lost}
    rounds = fog.run_until(lambda: not any(lost in fog.reached_by(site) for site in others))
    yield Figure(f"{what}: until all have lost a site that is cut off", "rounds", [rounds])


def _traffic(what: str, size: int, traffic: Traffic, rounds: int) -> Iterator[Figure]:
    # Each message is sent by one site and received by another.
    messages = 2 * traffic.messages / size / rounds
    kilobytes = 2 * traffic.size / size / rounds / _KB
    yield Figure(f"{what}: messages per site", "1/s", [messages], at_most=4 * MAX_TARGETS + 1)
    yield Figure(f"{what}: bytes per site", "KB/s", [kilobytes])
    yield Figure(f"{what}: largest message", "KB", [traffic.largest / _KB])


def _idle_chunk_bytes() -> int:
    """Return the size of the message of a subscription to metadata without news."""
    encoder = ChunkEncoder(EVENTS)
    idle = Chunk(empty_batch(EVENTS), Position(10**6, 0))
    encoder.encode(idle)
    return len(encoder.encode(idle))


def _facts_bytes(size: int) -> int:
    """Return the memory that an agent needs for the facts of all sites."""
    # The resident memory would not show what fits into memory that was freed before.
    tracemalloc.start()
    replicas = [_facts_of(number, size) for number in range(size)]
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del replicas
    return used


def _memory() -> int:
    """Return the resident memory of this process (bytes)."""
    gc.collect()
    return psutil.Process().memory_info().rss


def _facts_of(number: int, size: int) -> Facts:
    facts = Facts()
    name = f"site-{number}"
    url = f"http://{name}:8300"
    worker = Worker(name=name, url=url, cores=4, memory_mb=4000, cores_free=3, memory_free_mb=2000)
    facts[SITE_KEY] = encode_fact(SiteFact(node=name, url=url, region="north"))
    facts[worker_key(name)] = encode_fact(worker)
    for other in range(min(size - 1, MAX_TARGETS)):
        facts[link_key(f"site-{(number + other + 1) % size}")] = encode_fact(
            LinkFact(latency_ms=9.5)
        )
    return facts
