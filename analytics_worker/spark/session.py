"""The Spark session of a worker."""

import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from analytics_worker.computing import Computation
from analytics_worker.scratch import scratch_folder
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.panes_source import PanesSource
from analytics_worker.spark.pools import write_pools
from analytics_worker.spark.sink import MistbowSink
from analytics_worker.spark.source import GATHERED_WITH_FRONTIER, MistbowSource
from analytics_worker.spark_home import spark_home
from mistbow.plan.expressions import Measure, Source
from mistbow.plan.nodes import Insight, Pane, Plan, Window

_WARM_UP_AT_MOST = 30.0

_JAVA_OPTIONS = (
    "-Xss16m",  # deep plans overflow the JVM's default stack
    "-XX:+UseSerialGC",
    # A micro-batch is small: to compile it better costs a small machine more than it gains.
    "-XX:TieredStopAtLevel=1",
    # Of so few levels, 48 MB are the default: once they are full, the JVM compiles nothing more.
    "-XX:ReservedCodeCacheSize=128m",
)


def start_session(
    master: str, driver_memory: str, java_options: Sequence[str] = ()
) -> SparkSession:
    """Start Spark in a JVM of this process's own; takes about 6 s."""
    # Spark starts whatever python3 is on the PATH unless told, and that one may lack pyarrow.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = str(spark_home())
    # Its Python processes are forked, so what they are forked from may have no threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": " ".join((*_JAVA_OPTIONS, *java_options)),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": sys.executable,
        "spark.sql.adaptive.enabled": "false",
        # To generate code for each micro-batch costs more than it saves on so few rows: without
        # it, the JVM takes a sixth less of a core.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # One partition: all windows of a tick meet in one task, which composes them.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Else Spark measures all rows of a batch again at each row: a fifth of its CPU.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # The source announces the watermark a batch ahead: a batch without data would close early.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.pollingDelay": "20ms",
        # Hadoop's local file system starts a `chmod` process and a checksum file for each file
        # of a checkpoint; this pair does neither (a third less time a micro-batch).
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.metricsEnabled": "false",
        # What is kept for a page that nobody can open: each micro-batch's plan as text, for one.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": write_pools(scratch_folder()).as_uri(),
        "spark.local.dir": str(scratch_folder()),
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(master).appName("mistbow-worker")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(MistbowSource)
    session.dataSource.register(PanesSource)
    session.dataSource.register(MistbowSink)
    return session


def adopt_thread(session: SparkSession) -> None:
    """Make ``session`` the calling thread's own: Spark looks sinks up in that one."""
    sessions = SparkSession._get_j_spark_session_class(session._jvm)
    sessions.setActiveSession(session._jsparkSession)


def warm_up(session: SparkSession) -> None:
    """Run a small query once, so that the first real one finds code loaded and Python started.

    Spark starts a Python process for each thing that a source or a sink does, one after another:
    half of the time to the first result. This reads nothing and writes nothing, but starts them.
    Raises what the query fails of.
    """
    pane = Pane(id="warm", source=Source("warm"), by=(), width_ms=1000)
    window = Window(id="warm", pane="warm", size_ms=2000, every_ms=1000)
    insight = Insight(uid="warm", expression=Measure("AVG", "warm"), by=(), every_ms=1000, since=0)
    plan = Plan(insights=(insight,), windows=(window,), panes=(pane,))
    with ThreadPoolExecutor(1, "warm-up-source") as pool:
        reading = pool.submit(_read_nothing, session, plan)
        _write_nothing(session, plan)
        reading.result()


def _write_nothing(session: SparkSession, plan: Plan) -> None:
    folder = scratch_folder() / "warm-up"
    query = (
        lower(generated(session, 10), Computation(plan=plan, after={"warm": 0}, kept=folder / "p"))
        .writeStream.format("mistbow-sink")
        .options(url="", stream="", epoch=0)
        .option("checkpointLocation", str(folder / "c"))
        .start()
    )
    deadline = time.monotonic() + _WARM_UP_AT_MOST
    while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
        time.sleep(0.05)
    failure = query.exception()
    query.stop()
    shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def generated(session: SparkSession, rows: int, **given: Column) -> DataFrame:
    """Return points of Spark's own, so many a micro-batch, as if they were routed to pane 0.

    Their columns are those of the source; those that are neither needed nor ``given`` are null.
    """
    points = session.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
    needed = {
        "route": F.lit(0),
        "key": F.lit("{}"),
        "ts": F.unix_millis("timestamp"),
        "due": F.unix_millis("timestamp"),
        "value": F.col("value"),
        "count": F.lit(1),
        **dict.fromkeys(("sum", "min", "max"), F.col("value")),
    }
    known = needed | given
    return points.select(
        *(
            known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in from_arrow_schema(GATHERED_WITH_FRONTIER)
        )
    )


def _read_nothing(session: SparkSession, plan: Plan) -> None:
    panes = msgspec.json.encode(plan.panes).decode()
    points = session.read.format("mistbow").options(url="", stream="", panes=panes, start=0, end=0)
    points.load().collect()


def end_jvm(session: SparkSession) -> None:
    """Stop Spark and wait until its JVM has ended."""
    gateway: Any = session.sparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def is_alive(session: SparkSession) -> bool:
    """Return whether the JVM still runs."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None
