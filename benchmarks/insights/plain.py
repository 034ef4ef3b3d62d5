"""The same insights as one plain Spark query each: ``python -m benchmarks.insights.plain …``."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from analytics_worker.spark.session import start_session
from benchmarks.insights.delays import LATENESS_MS, Delays
from benchmarks.insights.live import RATE, WORKER, Measured, measure
from benchmarks.insights.services import storage
from benchmarks.insights.workload import SHAPES, Shape, feeding, metrics
from benchmarks.report import Figure
from mistbow.client.agent import AgentClient
from mistbow.streams.schemas import RAW, RESULT_ROWS
from tests.support.waiting import eventually

MOST = 20
STREAM = "results/plain"
_FUNCTIONS = {"AVG": F.avg, "MAX": F.max, "SUM": F.sum, "COUNT": F.count, "MIN": F.min}


def measured(home: Path, insights: int, seconds: float) -> Measured:
    """Measure so many insights, each by a query of its own in one Spark."""
    with storage(home) as site:
        agent = AgentClient(site.url)
        agent.create_stream(STREAM, RESULT_ROWS)
        epoch = agent.claim(STREAM).epoch
        with feeding(agent, insights, RATE), _queries(site.url, insights, epoch, home) as pid:
            delays = Delays(agent, STREAM)
            began = time.monotonic()
            eventually(lambda: len(delays.since(began)), timeout=240, what="the first result")
            time.sleep(60)  # the longest window, and all queries have begun
            return measure(delays, site, pid, seconds)


def ratios(insights: int, merged: Measured, apart: Measured) -> list[Figure]:
    """Return the one by the other: as a query each, and as one plan."""
    name = f"{insights} insights, a query each : merged"
    return [
        Figure(f"{name}, delay, p50", "ratio", [apart.percentile(50) / merged.percentile(50)]),
        Figure(f"{name}, delay, p95", "ratio", [apart.percentile(95) / merged.percentile(95)]),
        Figure(f"{name}, worker's cores", "ratio", [apart.cores(*WORKER) / merged.cores(*WORKER)]),
        Figure(
            f"{name}, worker's memory", "ratio", [apart.memory(*WORKER) / merged.memory(*WORKER)]
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
    """Run the queries until the input ends."""
    spark = start_session("local[*]", "768m")
    # As Spark is by default; our source announces its watermark ahead, this one's is Spark's own.
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


def _results(spark: SparkSession, url: str, name: str, metric: str, shape: Shape) -> DataFrame:
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
