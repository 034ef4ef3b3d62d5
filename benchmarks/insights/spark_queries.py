"""Runs the same insights for comparison, each as a plain Spark query, in a separate process."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics_worker.spark.session import start_session
from benchmarks.insights.delays import LATENESS_MS, ResultDelays
from benchmarks.insights.live import RATE, WORKER, LiveMeasurement, measure
from benchmarks.insights.services import storage
from benchmarks.insights.workload import SHAPES, InsightShape, metrics, send_points
from benchmarks.report import Figure
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.support.conditions import eventually

MAX_QUERIES = 20
STREAM = "results/plain"
_FUNCTIONS = {"AVG": F.avg, "MAX": F.max, "SUM": F.sum, "COUNT": F.count, "MIN": F.min}


def measure_queries(home: Path, insights: int, seconds: float) -> LiveMeasurement:
    """Measure a given number of insights, each as one query in the same Spark session."""
    with storage(home) as site:
        agent = AgentClient(site.url)
        agent.create_stream(STREAM, RESULT_ROWS)
        epoch = agent.claim(STREAM).epoch
        with send_points(agent, insights, RATE), _queries(site.url, insights, epoch, home) as pid:
            delays = ResultDelays(agent, STREAM)
            began = time.monotonic()
            eventually(lambda: len(delays.since(began)), timeout=240, what="the first result")
            time.sleep(60)  # the longest window, after all queries have started
            return measure(delays, site, pid, seconds)


def ratios(insights: int, combined: LiveMeasurement, separate: LiveMeasurement) -> list[Figure]:
    """Return the ratios of the figures of separate queries to the figures of one combined plan."""
    name = f"{insights} insights, a query each : merged"
    return [
        Figure(f"{name}, delay, p50", "ratio", [separate.percentile(50) / combined.percentile(50)]),
        Figure(f"{name}, delay, p95", "ratio", [separate.percentile(95) / combined.percentile(95)]),
        Figure(
            f"{name}, worker's cores",
            "ratio",
            [separate.cores(*WORKER) / combined.cores(*WORKER)],
        ),
        Figure(
            f"{name}, worker's memory",
            "ratio",
            [separate.memory(*WORKER) / combined.memory(*WORKER)],
        ),
    ]


@contextmanager
def _queries(url: str, insights: int, epoch: int, home: Path) -> Iterator[int]:
    argv = [sys.executable, "-m", __name__, url, str(insights), str(epoch), str(home)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)
    try:
        yield process.pid
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(120)


def main(url: str, insights: int, epoch: int, home: Path) -> None:
    """Run the first ``insights`` insights as Spark queries until the standard input ends."""
    spark = start_session("local[*]", "768m")
    # Spark's default, because these queries use Spark's own watermark.
    spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    shaped = [(metric, shape) for metric in metrics(insights) for shape in SHAPES][:insights]
    for number, (metric, shape) in enumerate(shaped):
        (
            _results(spark, url, f"i{number}", metric, shape)
            .writeStream.format("mistbow-sink")
            .options(url=url, stream=STREAM, epoch=epoch)
            .option("checkpointLocation", str(home / f"plain-{number}"))
            .start()
        )
    sys.stdin.read()
    for query in spark.streams.active:
        query.stop()


def _results(
    spark: SparkSession, url: str, name: str, metric: str, shape: InsightShape
) -> DataFrame:
    windows = F.window("time", f"{shape.size_s} seconds", f"{shape.every_s} seconds")
    return (
        spark.readStream.format("mistbow")
        .options(url=url, stream=RAW)
        .load()
        .where(F.col("metric") == metric)
        .withColumn("time", F.timestamp_millis("ts"))
        .withWatermark("time", f"{LATENESS_MS} milliseconds")
        .groupBy(windows.alias("during"), "entity")
        .agg(_FUNCTIONS[shape.function]("value").cast("double").alias("value"))
        .select(
            F.lit(name).alias("insight"),
            F.to_json(F.struct(F.col("entity").alias("entityID"))).alias("key"),
            F.unix_millis("during.end").alias("ts"),
            "value",
            F.lit(None).cast("array<double>").alias("values"),
            *(F.lit(None).cast("double").alias(one) for one in ("low", "high", "confidence")),
            F.lit(None).cast("string").alias("text"),
            F.lit(0).cast("bigint").alias("revision"),
            F.unix_millis(F.current_timestamp()).alias("computed_at"),
            F.lit(None).cast("string").alias("missing"),
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
