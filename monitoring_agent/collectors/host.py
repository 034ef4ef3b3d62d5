"""Metrics of the host: CPU, memory, disks, network, load, temperatures."""

from collections.abc import Iterator

import psutil

from mistbow.client import Point
from monitoring_agent.collectors.metric import Metric
from monitoring_agent.collectors.usage import MachineUsage, Usage

CPU = Metric("cpu.util", "%", "Share of the CPU in use", 100)
CORE = Metric("cpu.core.util", "%", "Utilization of one core of the machine", 100)
MEMORY_UTIL = Metric("memory.util", "%", "Share of the memory in use", 100)
MEMORY_USED = Metric("memory.used", "bytes", "Memory in use")
MEMORY_AVAILABLE = Metric("memory.available", "bytes", "Memory available without swapping")
SWAP_UTIL = Metric("swap.util", "%", "Share of the swap space in use", 100)
SWAP_USED = Metric("swap.used", "bytes", "Swap space in use")
READ_RATE = Metric("disk.read.rate", "bytes/s", "Bytes read from a disk per second")
READ_TOTAL = Metric("disk.read.total", "bytes", "Bytes read from a disk")
WRITTEN_RATE = Metric("disk.written.rate", "bytes/s", "Bytes written to a disk per second")
WRITTEN_TOTAL = Metric("disk.written.total", "bytes", "Bytes written to a disk")
SPACE_UTIL = Metric("disk.space.util", "%", "Share of a file system in use", 100)
SPACE_USED = Metric("disk.space.used", "bytes", "Bytes in use on a file system")
SPACE_FREE = Metric("disk.space.free", "bytes", "Bytes free on a file system")
RECEIVED_RATE = Metric("network.received.rate", "bytes/s", "Bytes received per second")
RECEIVED_TOTAL = Metric("network.received.total", "bytes", "Bytes received")
SENT_RATE = Metric("network.sent.rate", "bytes/s", "Bytes sent per second")
SENT_TOTAL = Metric("network.sent.total", "bytes", "Bytes sent")
LOADS = tuple(
    Metric(
        f"load.{minutes}m",
        "processes",
        f"Processes of the machine that run or wait, mean of {minutes} min",
    )
    for minutes in (1, 5, 15)
)
TEMPERATURE = Metric("temperature", "°C", "Temperature of a sensor", low=None)


class Rates:
    """Computes the rates of counters; the last reading of each counter is stored."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}

    def per_second(self, counter: str, total: float, now_ms: int) -> float | None:
        """Return the increase per second of ``counter`` since its last reading.

        ``total``: the reading at the time ``now_ms``. Return None at the first reading, if no time
        has passed since the last reading, and after the counter was reset.
        """
        last_total, last_ms = self._last.get(counter, (total, now_ms))
        self._last[counter] = (total, now_ms)
        if now_ms <= last_ms or total < last_total:
            return None
        return (total - last_total) * 1000 / (now_ms - last_ms)


class HostCollector:
    """Measures the host ``node``; the parts of the host are the entities ``node/part``.

    ``usage``: the CPU and the memory of the host; None: those of the machine.
    """

    name = "host"

    def __init__(self, node: str, usage: Usage | None = None) -> None:
        self._node = node
        self._usage = usage or MachineUsage()
        self._rates = Rates()
        # The first call covers no time, so its result is useless.
        psutil.cpu_percent(percpu=True)

    def collect(self, now_ms: int) -> Iterator[Point]:
        """Yield the points of the host at ``now_ms`` (ms since the epoch).

        A part that the host lacks, such as swap space or a sensor, has no points.
        """
        yield from self._cpu(now_ms)
        yield from self._memory(now_ms)
        yield from self._disks(now_ms)
        yield from self._file_systems(now_ms)
        yield from self._network(now_ms)
        yield from self._temperatures(now_ms)

    def _cpu(self, now: int) -> Iterator[Point]:
        busy_percent = self._usage.cpu_percent()
        if busy_percent is not None:
            yield CPU.point(self._node, "host", busy_percent, now)
        for core, busy in enumerate(psutil.cpu_percent(percpu=True)):
            yield CORE.point(f"{self._node}/cpu{core}", "cpu", busy, now)
        for metric, load in zip(LOADS, psutil.getloadavg(), strict=True):
            yield metric.point(self._node, "host", load, now)

    def _memory(self, now: int) -> Iterator[Point]:
        memory = self._usage.memory()
        yield MEMORY_UTIL.point(self._node, "host", memory.percent, now)
        yield MEMORY_USED.point(self._node, "host", memory.used, now)
        yield MEMORY_AVAILABLE.point(self._node, "host", memory.available, now)
        swap = psutil.swap_memory()
        if swap.total:
            yield SWAP_UTIL.point(self._node, "host", swap.percent, now)
            yield SWAP_USED.point(self._node, "host", swap.used, now)

    def _disks(self, now: int) -> Iterator[Point]:
        for disk, io in (psutil.disk_io_counters(perdisk=True) or {}).items():
            entity = f"{self._node}/{disk}"
            yield READ_TOTAL.point(entity, "disk", io.read_bytes, now)
            yield WRITTEN_TOTAL.point(entity, "disk", io.write_bytes, now)
            yield from self._rate(READ_RATE, entity, "disk", io.read_bytes, now)
            yield from self._rate(WRITTEN_RATE, entity, "disk", io.write_bytes, now)

    def _file_systems(self, now: int) -> Iterator[Point]:
        seen = set()
        for part in psutil.disk_partitions():
            if part.device in seen:  # mounted at several places
                continue
            seen.add(part.device)
            try:
                space = psutil.disk_usage(part.mountpoint)
            except OSError:  # unmounted meanwhile, or without permission
                continue
            entity = f"{self._node}{part.mountpoint}"
            yield SPACE_UTIL.point(entity, "filesystem", space.percent, now)
            yield SPACE_USED.point(entity, "filesystem", space.used, now)
            yield SPACE_FREE.point(entity, "filesystem", space.free, now)

    def _network(self, now: int) -> Iterator[Point]:
        for interface, io in psutil.net_io_counters(pernic=True).items():
            entity = f"{self._node}/{interface}"
            yield RECEIVED_TOTAL.point(entity, "network", io.bytes_recv, now)
            yield SENT_TOTAL.point(entity, "network", io.bytes_sent, now)
            yield from self._rate(RECEIVED_RATE, entity, "network", io.bytes_recv, now)
            yield from self._rate(SENT_RATE, entity, "network", io.bytes_sent, now)

    def _temperatures(self, now: int) -> Iterator[Point]:
        if not hasattr(psutil, "sensors_temperatures"):  # not on every system
            return
        for chip, sensors in psutil.sensors_temperatures().items():
            for number, sensor in enumerate(sensors):
                entity = f"{self._node}/{chip}{number}"
                yield TEMPERATURE.point(entity, "sensor", sensor.current, now)

    def _rate(
        self, metric: Metric, entity: str, entity_type: str, total: int, now: int
    ) -> Iterator[Point]:
        rate = self._rates.per_second(f"{metric.id} {entity}", total, now)
        if rate is not None:
            yield metric.point(entity, entity_type, rate, now)
