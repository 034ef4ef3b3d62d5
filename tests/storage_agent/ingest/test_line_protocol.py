"""Influx line protocol: stored points, and rejected lines."""

import gzip
import json

import httpx
import pytest

from mistbow.client.agent import AgentClient
from mistbow.clock import system_clock
from mistbow.streams.schemas import RAW
from tests.storage_agent.ingest.conftest import counted, stored

NOW = 1_795_262_400_000


def send(url: str, lines: str | bytes, path: str = "/write", **headers: str) -> httpx.Response:
    body = lines.encode() if isinstance(lines, str) else lines
    return httpx.post(f"{url}{path}", content=body, headers=headers)


@pytest.mark.parametrize("path", ["/write", "/api/v2/write", "/api/v1/write"])
@pytest.mark.parametrize("site", ["elsewhere", ""])
def test_site_in_the_url_of_a_collector_is_refused(url: str, path: str, site: str) -> None:
    answer = send(url, f"elsewhere value=1 {NOW}000000", f"{path}?site={site}")
    assert answer.status_code == 400
    assert "nothing was stored" in answer.text


def test_lines_are_stored_as_points(url: str, client: AgentClient) -> None:
    lines = f"""# a comment

a_cpu,host=h1,core=0 idle=90.5,busy=2i,hot=true,value=7u {NOW}000000
a_cpu,core=1 idle=80 {NOW}999999\r
a\\ b,host=h\\ 2 value=1 {NOW}000000"""
    assert send(url, lines, "/write?db=telegraf&rp=").status_code == 204
    assert stored(client, "a_cpu", "a_cpu_idle", "a_cpu_busy", "a_cpu_hot", "a b") == {
        ("a_cpu", "h1"): [(NOW, 7)],
        ("a_cpu_idle", "h1"): [(NOW, 90.5)],
        ("a_cpu_busy", "h1"): [(NOW, 2)],
        ("a_cpu_hot", "h1"): [(NOW, 1)],
        ("a_cpu_idle", "n1"): [(NOW, 80)],
        ("a b", "h 2"): [(NOW, 1)],
    }
    rows = client.read(RAW, match={"metric": "a_cpu_busy"}).table
    assert json.loads(rows["attributes"][0].as_py())["core"] == "0"


def test_body_is_stored_again_after_its_points_were_deleted(url: str, client: AgentClient) -> None:
    for _ in range(2):
        assert send(url, f"again,host=h value=1 {NOW}000000").status_code == 204
        assert stored(client, "again") == {("again", "h"): [(NOW, 1)]}
        client.delete("again")
        assert stored(client, "again") == {}


@pytest.mark.parametrize(
    ("precision", "time"),
    [
        ("", f"{NOW}000000"),
        ("ns", f"{NOW}000001"),
        ("us", f"{NOW}001"),
        ("u", f"{NOW}000"),
        ("ms", f"{NOW}"),
        ("s", f"{NOW // 1000}"),
        ("m", f"{NOW // 60_000}"),
        ("h", f"{NOW // 3_600_000}"),
    ],
)
def test_precision_is_unit_of_times(
    url: str, client: AgentClient, precision: str, time: str
) -> None:
    path = f"/api/v2/write?bucket=b&org=o&precision={precision}"
    assert send(url, f"b_{precision} value=1 {time}", path).status_code == 204
    assert stored(client, f"b_{precision}")[f"b_{precision}", "n1"] == [(NOW, 1)]


def test_text_with_line_ends_is_one_field(url: str, client: AgentClient) -> None:
    time = f"{NOW}000000"
    lines = [
        f'log,host=h\\ "1 text="one\nfoo value=666 {time}\n\\"three\\"",n=2 {time}',
        f'log,host="2 n=3,text="a, b=c\nd" {time}',
        f"log,host=3 n=4 {time}",
        f"log,host=4 n= {time}",
    ]
    message = send(url, "\n".join(lines)).json()["message"]
    assert "3 of 6 points are not stored" in message
    assert "line 7 (log,host=4" in message
    assert stored(client, "log_n", "foo") == {
        ("log_n", 'h "1'): [(NOW, 2)],
        ("log_n", '"2'): [(NOW, 3)],
        ("log_n", "3"): [(NOW, 4)],
    }


def test_line_with_unclosed_text_is_rejected(url: str, client: AgentClient) -> None:
    lines = f'open text="a,n=1 {NOW}000000\nopened value=2 {NOW}000000\n'
    assert send(url, lines).status_code == 400
    assert stored(client, "opened", "open_n") == {}


def test_unknown_precision_is_rejected(url: str) -> None:
    answer = send(url, "m value=1", "/write?precision=weeks")
    assert answer.status_code == 400
    assert "'weeks' is not one of ns" in answer.json()["message"]


def test_lines_without_time_are_of_now_and_stored_again(url: str, client: AgentClient) -> None:
    before = system_clock()
    for _ in range(2):
        assert send(url, "c value=1").status_code == 204
        assert send(url, f"c_timed value=1 {NOW}000000").status_code == 204
    found = stored(client, "c", "c_timed")
    assert [before <= time <= system_clock() for time, _ in found["c", "n1"]] == [True, True]
    assert found["c_timed", "n1"] == [(NOW, 1)]


def test_invalid_lines_are_named_and_valid_ones_stored(url: str, client: AgentClient) -> None:
    lines = b"\n".join(
        [
            b"d value=1 1795262400000000000",
            b"d value=",
            b'd,host=h text="secret",n=2 1795262400000000000',
            b"d value=3 -5000000",
            b"\xff value=1",
            b"d," + b"k=" + b"x" * 5000 + b" value=4 1795262400000000000",
        ]
    )
    text = counted(url, "mistbow_agent_refused_points_total", source="line protocol", reason="text")
    answer = send(url, lines)
    assert answer.status_code == 400
    message = answer.json()["error"]
    assert message.startswith(
        "partial write: 5 of 7 points are not stored: line 2 (d value=): unable"
    )
    for what in ("line 3 (d_text of h): the value is text", "line 4", "line 5", "line 6"):
        assert what in message
    assert stored(client, "d", "d_n") == {("d", "n1"): [(NOW, 1)], ("d_n", "h"): [(NOW, 2)]}
    after = counted(
        url, "mistbow_agent_refused_points_total", source="line protocol", reason="text"
    )
    assert after - text == 1


def test_gzip_body_is_decompressed(url: str, client: AgentClient) -> None:
    packed = gzip.compress(f"e value=1 {NOW}000000".encode(), mtime=0)
    assert send(url, packed, **{"Content-Encoding": "GZIP"}).status_code == 204
    assert stored(client, "e") == {("e", "n1"): [(NOW, 1)]}


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b"m value=1", mtime=0)[:-9], "gzip", 400),
        (b"m value=1", "gzip", 400),
        (gzip.compress(b"\n" * (8 * 2**20 + 1), mtime=0), "gzip", 413),
        (b"m value=1", "br", 415),
        (b"m value=1\n" * 1001, "identity", 413),
    ],
)
def test_bad_bodies_are_refused(url: str, body: bytes, encoding: str, status: int) -> None:
    answer = send(url, body, **{"Content-Encoding": encoding})
    assert answer.status_code == status
    assert answer.json().keys() == {"code", "message", "error"}


def test_ping(url: str) -> None:
    assert httpx.get(f"{url}/ping").status_code == 204
    assert httpx.head(f"{url}/ping").status_code == 204
