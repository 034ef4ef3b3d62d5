from pathlib import Path

import pytest

from analytics_worker.spark.task_usage import TaskUsage, read_usage, record_usage


def test_usage_is_the_time_since_the_record_before(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    record_usage(one)
    before = read_usage(one).cpu_s
    sum(range(3_000_000))
    record_usage(one, rows_read=5)
    record_usage(other, rows_read=2)
    record_usage(one, rows_read=3)
    assert read_usage(one).rows_read == 8
    assert read_usage(one).cpu_s > before + 0.01
    assert read_usage(other) == TaskUsage(pytest.approx(0.0, abs=0.01), 2)


def test_usage_of_an_ended_query_is_not_recorded(tmp_path: Path) -> None:
    record_usage(tmp_path / "ended", rows_read=5)
    record_usage(None, rows_read=5)
    assert read_usage(tmp_path / "ended") == TaskUsage()
