"""The export of results as CSV and Parquet."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analytics_enabler.results.export import SCHEMA, export

ROWS = [
    {
        **{"insight": "a", "key": {"node": 'n,"1"\n<b>'}, "ts": 1, "value": 0.1, "text": None},
        **{"low": None, "high": None, "confidence": None, "few_points": None},
        **{"values": [1.0, 2.5]},
        **{"revision": 0, "computed_at": 9, "missing": ["edge", "far"]},
    },
    {
        **{"insight": "b", "key": {}, "ts": 2, "value": None, "text": "=1+1", "values": None},
        **{"low": 1.0, "high": 2.0, "confidence": 0.95, "few_points": 3},
        **{"revision": 3, "computed_at": 9, "missing": []},
    },
]


def test_csv_has_all_columns() -> None:
    header, first, second = csv.reader(io.StringIO(export(ROWS, "csv").decode()))
    assert header == ["insight", "time", "node", *SCHEMA.names[1:]]
    found = dict(zip(header, first, strict=True))
    assert json.loads(found["key"]) == ROWS[0]["key"]
    assert (found["value"], json.loads(found["values"])) == ("0.1", [1.0, 2.5])
    assert json.loads(found["missing"]) == ["edge", "far"]
    assert (found["time"], found["node"]) == ("1970-01-01T00:00:00.001Z", 'n,"1"\n<b>')
    other = dict(zip(header, second, strict=True))
    assert (other["text"], other["node"]) == ("'=1+1", "")


def test_csv_names_attributes_apart_from_other_columns() -> None:
    row = {**ROWS[0], "key": {"value": "v", "time": True}}
    header, cells = csv.reader(io.StringIO(export([row], "csv").decode()))
    found = dict(zip(header, cells, strict=True))
    assert (found["key.value"], found["key.time"], found["value"]) == ("v", "true", "0.1")


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1+1", "\r=1+1", "\n=1+1"]
FORMULAS += ["＝1+1", "＋1", "－1", "＠SUM(A1)"]


@pytest.mark.parametrize("formula", FORMULAS)
def test_csv_has_no_formula_in_texts_of_senders(formula: str) -> None:
    row = {**ROWS[0], "key": {"node": formula}, "value": -1.5, "text": formula}
    header, cells = csv.reader(io.StringIO(export([row], "csv").decode(), newline=""))
    found = dict(zip(header, cells, strict=True))
    assert (found["node"], found["text"]) == (f"'{formula}", f"'{formula}")
    assert (json.loads(found["key"]), found["value"]) == (row["key"], "-1.5")
    [stored] = pq.read_table(pa.BufferReader(export([row], "parquet"))).to_pylist()
    assert stored["text"] == formula


@pytest.mark.parametrize("name", FORMULAS)
def test_csv_has_no_formula_in_its_header(name: str) -> None:
    row = {**ROWS[0], "key": {name: "=2+2", f"'{name}": "other"}}
    header, cells = csv.reader(io.StringIO(export([row], "csv").decode(), newline=""))
    found = dict(zip(header, cells, strict=True))
    assert (found[f"key.'{name}"], found[f"'{name}"]) == ("'=2+2", "other")
    row = {**ROWS[0], "key": {name: "value"}}
    header, _ = csv.reader(io.StringIO(export([row], "csv").decode(), newline=""))
    assert header[2] == f"'{name}"


def test_parquet_has_the_rows_with_types() -> None:
    table = pq.read_table(pa.BufferReader(export(ROWS, "parquet")))
    assert table.schema.equals(SCHEMA)
    rows = [{**row, "key": json.loads(row["key"])} for row in table.to_pylist()]
    assert rows == ROWS


def test_export_of_no_results_has_only_the_header() -> None:
    columns = ["insight", "time", *SCHEMA.names[1:]]
    assert export([], "csv").decode().splitlines() == [",".join(columns)]
    assert pq.read_table(pa.BufferReader(export([], "parquet"))).num_rows == 0
