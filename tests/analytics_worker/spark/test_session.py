"""Sessions of Spark: their threads, and their log when a query fails."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from analytics_worker.spark.session import warm_up

_ROOT = Path(__file__).parents[3]
_FAILING_QUERY = """
import sys
from pyspark.errors import StreamingQueryException
from analytics_worker.spark.session import end_jvm, generate_points, start_session

session = start_session("local[1]", "512m")
query = (
    generate_points(session, 10)
    .writeStream.format("mistbow-sink")
    .options(url="", stream="", epoch=0)
    .option("checkpointLocation", sys.argv[1])
    .start()
)
try:
    query.awaitTermination(60)
except StreamingQueryException:
    print("the query failed")
end_jvm(session)
"""


@pytest.mark.soak
@pytest.mark.usefixtures("processes")
def test_failed_query_prints_no_stack_trace(tmp_path: Path) -> None:
    """The runner of a fragment logs the failure in one line."""
    command = [sys.executable, "-c", _FAILING_QUERY, str(tmp_path)]
    ended = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=120)
    assert "the query failed" in ended.stdout
    assert " ERROR " not in ended.stderr
    assert "\tat " not in ended.stderr


def test_session_is_warmed_up_by_a_thread_that_did_not_start_it(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as other:
        other.submit(warm_up, spark).result()


def test_session_has_short_texts_of_the_plans_of_micro_batches(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.ui.explainMode") == "simple"
