"""The collectors: host, processes, JSON sources, rates."""

import json
import math
import os
import shlex
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psutil
import pytest
from structlog.testing import capture_logs

from monitoring_agent import metrics
from monitoring_agent.collectors.host import CPU, TEMPERATURE, HostCollector, Rates
from monitoring_agent.collectors.interface import make_collectors
from monitoring_agent.collectors.json_source import JsonCollector
from monitoring_agent.collectors.processes import ProcessCollector
from monitoring_agent.collectors.source_reader import SourceError, read_source
from monitoring_agent.settings import MonitorSettings
from tests.support.conditions import eventually

POINT = {"metricID": "m", "entityID": "e", "val": 6}


def by_metric(points):
    found = {}
    for point in points:
        found.setdefault(point.metric, []).append(point)
    return found


def test_host_collector_yields_every_family_with_units_and_bounds():
    host = HostCollector("n1")
    list(host.collect(1_000))
    found = by_metric(host.collect(2_000))
    assert {
        "cpu.util",
        "cpu.core.util",
        "memory.util",
        "memory.used",
        "load.1m",
        "network.received.rate",
        "network.received.total",
    } <= found.keys()
    (cpu,) = found["cpu.util"]
    assert (cpu.entity, cpu.entity_type, cpu.units, cpu.group) == ("n1", "host", "%", "cpu")
    assert len(found["cpu.core.util"]) == os.cpu_count()
    assert found["cpu.core.util"][0].entity == "n1/cpu0"
    points = [point for points in found.values() for point in points]
    assert all(point.ts == 2_000 and math.isfinite(point.value) for point in points)
    assert all(point.max_val is None or 0 <= point.value <= point.max_val for point in points)


def test_points_have_the_bounds_of_their_metric():
    utilization, temperature = (each.point("e", "host", 1.0, 0) for each in (CPU, TEMPERATURE))
    assert (utilization.min_val, utilization.max_val) == (0, 100)
    assert (temperature.min_val, temperature.max_val) == (None, None)


@pytest.mark.usefixtures("processes")
def test_process_collector_sums_processes_of_one_name(tmp_path):
    twin = tmp_path / "mb-twin"
    twin.symlink_to(sys.executable)
    busy = [psutil.Popen([twin, "-Sc", "while True: pass"]) for _ in range(2)]
    processes = ProcessCollector("n1")

    def summed():
        found = [p for p in processes.collect(1_000) if p.entity.startswith("n1/mb-twin")]
        both = sum(process.memory_info().rss for process in busy)
        return [(p.metric, p.entity) for p in found if p.metric == "process.cpu" or p.value == both]

    entity = "n1/mb-twin"
    try:
        eventually(lambda: summed() == [("process.cpu", entity), ("process.memory", entity)])
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_process_collector_yields_ten_names_at_most_with_cpu_and_memory():
    found = by_metric(ProcessCollector("n1").collect(1_000))
    assert found.keys() == {"process.cpu", "process.memory"}
    assert 1 <= len(found["process.cpu"]) <= 10
    first = found["process.cpu"][0]
    assert first.entity.startswith("n1/")
    assert first.entity_type == "process"


def test_rates_return_none_at_the_first_reading_and_after_a_reset():
    rates = Rates()
    assert rates.per_second("c", 100, 1_000) is None  # the first
    assert rates.per_second("c", 150, 1_500) == 100
    assert rates.per_second("c", 150, 1_500) is None  # no time between
    assert rates.per_second("c", 10, 2_000) is None  # reset
    assert rates.per_second("c", 20, 3_000) == 10


@pytest.mark.usefixtures("processes")
def test_json_collector_reads_files_and_commands(tmp_path):
    file = tmp_path / "points.json"
    file.write_text(json.dumps({"monitoring": [{**POINT, "timestamp": 5}]}))
    assert [(p.metric, p.value, p.ts) for p in JsonCollector(str(file)).collect(9)] == [("m", 6, 5)]
    command = shlex.join([sys.executable, "-c", f"print({json.dumps(json.dumps([POINT]))})"])
    assert [p.ts for p in JsonCollector(f"exec:{command}").collect(9)] == [9]


@pytest.mark.parametrize("text", ["", "7", "[7]", "{}", '[{"metricID": "m"}]', '[{"val": "x"}]'])
def test_json_collector_rejects_json_that_is_no_list_of_points(tmp_path, text):
    file = tmp_path / "points.json"
    file.write_text(text)
    with pytest.raises(SourceError, match="does not return a list of points"):
        JsonCollector(str(file)).collect(9)


@pytest.mark.parametrize("value", ["null", "NaN", '"x"', "true", "1e999", "1" + "0" * 400])
def test_json_collector_drops_and_counts_invalid_points_alone(tmp_path, value):
    file = tmp_path / "points.json"
    item = '{"metricID":"m","entityID":"e","val":%s}'
    file.write_text(f'[{item % 1},{{"val":2}},7,{item % value}]')
    collector = JsonCollector(str(file))
    with capture_logs() as logs:
        assert [point.value for point in collector.collect(9)] == [1]
        assert [point.value for point in collector.collect(10)] == [1]
    [event] = logs
    assert (event["event"], event["points"]) == ("source_points_invalid", 3)
    assert metrics.INVALID_POINTS.labels(collector.name)._value.get() == 6


def test_json_collector_converts_texts_and_numbers_as_put_does(tmp_path):
    file = tmp_path / "points.json"
    file.write_text('{"monitoring":[{"metricID":"m","entityID":7,"val":"6.5","timestamp":"5"}]}')
    [point] = JsonCollector(str(file)).collect(9)
    assert (point.entity, point.value, point.ts) == ("7", 6.5, 5)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("a.json", "a.json"),
        ("http://u:secret@h/x", "http://h/x"),
        ("HTTPS://secret@h:80/x/@y?t=secret", "HTTPS://h:80/x/@y"),
        ("http://h?a=secret@secret", "http://h"),
        ("http://u:secret/secret@h/x", "http://…"),
        ("http://u:secret#secret@h/x", "http://…"),
        ("http://u@v:secret@[::1]:80/x#secret", "http://[::1]:80/x"),
        ("exec:/bin/curl -H 'Authorization: Bearer secret' http://u:secret@h", "exec:curl"),
        ("exec:curl -H 'Authorization: Bearer secret", "exec:curl"),
        ("exec:TOKEN=secret curl", "exec:TOKEN"),
        ("exec:", "exec:"),
    ],
)
def test_name_of_a_source_has_no_credentials(source, name):
    assert JsonCollector(source).name == name


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "source",
    [
        "http://u:secret@127.0.0.1:1/x?t=secret",
        "http://u:secret/x@127.0.0.1:1/",
        "exec:false secret",
        "exec:curl 'secret",
        "exec:TOKEN=secret curl",
    ],
)
def test_error_of_a_source_has_no_credentials(source):
    with pytest.raises(SourceError, match="cannot read") as raised:
        JsonCollector(source).collect(9)
    assert "secret" not in str(raised.value)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("source", ["/nowhere", "exec:false", "http://127.0.0.1:1/"])
def test_json_collector_reports_an_unavailable_source(source):
    with pytest.raises(SourceError, match="cannot read"):
        JsonCollector(source).collect(9)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("/dev/zero", "it is not a regular file"),
        ("exec:yes", "it has more than 8388608 bytes"),
        ("exec:sh -c 'sleep 60 & sleep 60'", "the command did not end within 0.2 s"),
        ("exec:sh -c 'sleep 60 &'", "the command did not end within 0.2 s"),
        ("exec:sh -c 'exit 7'", "the command ended with the status 7"),
    ],
)
def test_source_without_end_is_refused(source, problem):
    """Its output filled the memory, and a child of its command kept the collector waiting."""
    begin = time.monotonic()
    with pytest.raises(SourceError, match=f"^cannot read name: {problem}$"):
        read_source(source, "name", 0.2)
    assert time.monotonic() - begin < 10


def test_file_that_is_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="it is not a regular file"):
        read_source(str(tmp_path / "pipe"), "pipe")


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("pause_s", "problem"), [(0.05, "not complete within 0.2 s"), (0, "more than 8388608 bytes")]
)
def test_answer_without_end_is_refused(pause_s, problem):
    class Endless(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b" " if pause_s else b" " * 2**20)
                    time.sleep(pause_s)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        with pytest.raises(SourceError, match=problem):
            read_source(url, "name", 0.2 if pause_s else 10)
        server.shutdown()


@pytest.mark.usefixtures("processes")
def test_error_of_an_answer_has_its_status_and_no_credentials():
    class Missing(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Missing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}/x"
        with pytest.raises(SourceError) as raised:
            JsonCollector(f"http://u:secret@{address}?t=secret").collect(9)
        server.shutdown()
    assert str(raised.value) == f"cannot read http://{address}: the answer has the status 404"


def test_make_collectors_adds_the_sources_of_the_settings():
    settings = MonitorSettings(node="n1", sources="a.json; exec:date ;exec:date -u")
    names = [collector.name for collector in make_collectors(settings)]
    assert names[:5] == ["host", "processes", "a.json", "exec:date", "exec:date#2"]
