"""``mistbow storage inspect`` against a real agent."""

import json

import pyarrow as pa
from typer.testing import CliRunner

from command_line.app import app
from mistbow.client import AgentClient, Point


def test_inspect_prints_rows_bytes_and_times(client: AgentClient, url: str) -> None:
    now = client.info("raw").frontier
    client.put([Point("m", "e", now + step, 1.0) for step in range(100)])
    client.create_stream("plain", pa.schema([("word", pa.string())]))
    client.append("plain", pa.table({"word": ["x"]}))
    client.claim("plain")
    runner = CliRunner(env={"COLUMNS": "200", "TERM": "dumb"})
    output = runner.invoke(app, ["storage", "inspect", "--url", url, "--json"]).output
    streams = {each["name"]: each for each in json.loads(output)["streams"]}
    raw, plain = streams["raw"], streams["plain"]
    assert (raw["rows"], raw["first_ts"], raw["last_ts"]) == (100, now, now + 99)
    assert raw["segments"] >= 1
    assert raw["bytes"] > 0
    assert raw["bytes_per_row"] == round(raw["bytes"] / 100, 2)
    assert (plain["rows"], plain["first_ts"], plain["last_ts"]) == (1, None, None)
    shown = runner.invoke(app, ["storage", "inspect", "--url", url]).output
    for word in ("segments", "bytes/row", "retention", "raw", "plain", "100"):
        assert word in shown
