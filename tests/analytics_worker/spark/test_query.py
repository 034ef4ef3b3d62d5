"""A query of a fragment on Spark, whose micro-batches the worker observes."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from analytics_worker.query_lease import QueryLease
from analytics_worker.spark.query import FragmentQuery
from analytics_worker.spark.session import generate_points
from tests.analytics_worker.lifecycle.fragments import partial
from tests.support.conditions import eventually


def test_query_converts_each_update_of_spark_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    converted: list[int] = []
    from_json = StreamingQueryProgress.fromJson

    def count(update: dict[str, Any]) -> StreamingQueryProgress:
        converted.append(update["batchId"])
        return from_json(update)

    monkeypatch.setattr(StreamingQueryProgress, "fromJson", count)
    fragment = partial("f")
    lease = QueryLease.create("", fragment.target, tmp_path)
    rows = generate_points(spark, 10).filter("false")
    query = FragmentQuery(fragment, rows, {"url": "", "stream": ""}, tmp_path / "q", lease)
    try:
        for number in (1, 2, 3):

            def has_batches(number: int = number) -> bool:
                query.observe()
                assert query.failure is None
                return query.counts.batches >= number

            eventually(has_batches, timeout=60, what="a micro-batch")
    finally:
        query.stop()
    assert converted == list(range(query.counts.batches))
