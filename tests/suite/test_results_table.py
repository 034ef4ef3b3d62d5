from io import StringIO

from rich.console import Console

from analytics.insight_models import Result
from suite.results_table import ResultsTable, result_line


def result(value, ts=60_000, revision=0, **key):
    return Result(
        insight="cpu_now", key=key, ts=ts, value=value, revision=revision, computed_at=ts + 1_000
    )


def shown(board):
    console = Console(file=StringIO(), width=120)
    console.print(board)
    return console.file.getvalue()


def test_newest_value_of_each_key_is_shown_with_its_age():
    board = ResultsTable({"enabler": "http://127.0.0.1:8000"}, clock=lambda: 63_500)
    board.update(result(1.5, entityID="a"))
    board.update(result(1234.5, entityID="b"))
    board.update(result(9.0, ts=55_000, entityID="a"))
    text = shown(board)
    assert "entityID=a" in text
    assert "1.500" in text
    assert "1,234.500" in text
    assert "9.000" not in text
    assert "3.5 s" in text
    assert "http://127.0.0.1:8000/docs" in text
    assert " console  http://127.0.0.1:8000/\n" in text


def test_correction_replaces_what_it_corrects():
    board = ResultsTable({}, clock=lambda: 60_000)
    board.update(result(1.0))
    board.update(result(2.0, revision=1))
    assert "2.000" in shown(board)
    board.update(result(None, revision=2))
    assert "withdrawn" in shown(board)


def test_key_that_its_insight_has_left_behind_is_not_shown():
    board = ResultsTable({}, clock=lambda: 120_000)
    board.update(result(1.0, entityID="ended"))
    board.update(result(2.0, entityID="alive"))
    board.update(result(3.0, ts=90_000, entityID="alive"))
    assert "alive" in shown(board)
    assert "ended" not in shown(board)


def test_insights_without_values_are_shown_with_the_reason():
    board = ResultsTable({}, clock=lambda: 60_000)
    board.set_silent(["cpu_now has no value: no point of `cpu` came in within 15 s"])
    assert "no point of `cpu` came in" in shown(board)
    board.set_silent([])
    assert "no value" not in shown(board)


def test_plain_line_is_one_line():
    line = result_line(result(2.0, entityID="a", node="n"))
    assert line.endswith("cpu_now entityID=a, node=n 2.000")
