"""Series of exporters in a small web shop, with the names that dashboards and rules expect."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

BEGIN = 1_700_000_000_000
STEP = 15_000
COUNT = 160
END = BEGIN + COUNT * STEP

HOSTS = ("db-1:9100", "web-1:9100", "web-2:9100")
APPS = ("web-1:8080", "web-2:8080")


@dataclass(frozen=True, slots=True)
class Sampled:
    """A series of Prometheus: its labels, including the name, and its samples (ms, value)."""

    labels: Mapping[str, str]
    samples: list[tuple[int, float]]


def shop() -> list[Sampled]:
    """Return all series; each call returns the same series."""
    return [
        Sampled({"__name__": metric, **labels}, _samples(value))
        for source in (_hosts(), _apps(), _cluster())
        for metric, labels, value in source
    ]


_Source = Iterator[tuple[str, dict[str, str], Callable[[int], float]]]


def _samples(value: Callable[[int], float]) -> list[tuple[int, float]]:
    return [(BEGIN + n * STEP, float(value(n))) for n in range(COUNT)]


def _counter(per_step: float, resets_after: int = COUNT) -> Callable[[int], float]:
    return lambda n: per_step * (n % resets_after)


def _hosts() -> _Source:
    """Yield metrics of node-exporter."""
    for number, instance in enumerate(HOSTS, 1):
        on = {"instance": instance, "job": "node"}
        yield "up", on, lambda n, number=number: float(number < 3 or n < 100)
        for cpu in ("0", "1"):
            for mode, share in (("idle", 10.0), ("user", 3.0), ("system", 1.5), ("iowait", 0.5)):
                rate = share + number / 8 if mode == "user" else share
                labels = {**on, "cpu": cpu, "mode": mode}
                yield "node_cpu_seconds_total", labels, _counter(rate, 90 + number)
        yield "node_memory_MemTotal_bytes", on, lambda n: 8e9
        yield (
            "node_memory_MemAvailable_bytes",
            on,
            lambda n, number=number: 4e9 - number * 1e8 - n * 1e6,
        )
        for device, point, kind in (("/dev/sda1", "/", "ext4"), ("tmpfs", "/run", "tmpfs")):
            labels = {**on, "device": device, "mountpoint": point, "fstype": kind}
            yield "node_filesystem_size_bytes", labels, lambda n: 1e11
            yield "node_filesystem_avail_bytes", labels, lambda n, k=number: 6e10 - k * n * 1e8
        for device in ("eth0", "lo"):
            labels = {**on, "device": device}
            yield "node_network_receive_bytes_total", labels, _counter(1500.0 * number)
        yield "node_load1", on, lambda n, number=number: (n % 7) / number
        name = instance.partition(":")[0]
        yield "node_uname_info", {**on, "nodename": name, "release": "6.1"}, lambda n: 1.0


def _apps() -> _Source:
    """Yield metrics of an HTTP server with a histogram of durations."""
    for number, instance in enumerate(APPS, 1):
        on = {"instance": instance, "job": "shop"}
        yield "up", on, lambda n: 1.0
        yield "process_start_time_seconds", on, lambda n, k=number: BEGIN / 1000 - 3600 * k
        for handler in ("/cart", "/pay"):
            for code, rate in (("200", 30.0), ("404", 2.0), ("500", 0.5 * number)):
                labels = {**on, "handler": handler, "code": code, "method": "GET"}
                yield "http_requests_total", labels, _counter(rate, 70)
            for bound, share in (("0.1", 20.0), ("0.5", 26.0), ("1", 29.0), ("+Inf", 30.0)):
                labels = {**on, "handler": handler, "le": bound}
                yield "http_request_duration_seconds_bucket", labels, _counter(share * number)
            labels = {**on, "handler": handler}
            yield "http_request_duration_seconds_sum", labels, _counter(7.5 * number)
            yield "http_request_duration_seconds_count", labels, _counter(30.0 * number)


def _cluster() -> _Source:
    """Yield series of brokers, and results of recording rules.

    The results of rules have no label ``instance``.
    """
    for group in ("billing", "mail"):
        labels = {"instance": "kafka:9308", "job": "kafka", "group": group, "topic": "orders"}
        yield "kafka_consumergroup_lag", labels, lambda n, k=len(group): float(n % 11 + k)
    yield "job:http_requests:rate5m", {"job": "shop"}, lambda n: 4.0 + n / 100
    yield "cluster:node_load1:max", {}, lambda n: 6.0
