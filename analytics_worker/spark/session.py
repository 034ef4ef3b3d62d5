"""The Spark session of a worker."""

import os
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from analytics.plan.expressions import Measure, Source
from analytics.plan.nodes import Insight, Pane, Plan, Window
from analytics_worker.evaluate.computation import Computation
from analytics_worker.heap import heap_mb
from analytics_worker.scratch_folder import scratch_folder
from analytics_worker.spark.fork_server.supervision import start_fork_server
from analytics_worker.spark.installed_files import installed_spark
from analytics_worker.spark.lowering import lower
from analytics_worker.spark.panes_source import PanesSource
from analytics_worker.spark.scheduler_pools import write_pools
from analytics_worker.spark.sink import MistbowSink
from analytics_worker.spark.source import BATCHED_WITH_FRONTIER, MistbowSource

_WARM_UP_TIMEOUT_S = 30.0

_FAILURE_LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.datasources.v2.DataWritingSparkTask",
    "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    "org.apache.spark.util.Utils",
)
"""The loggers that print the stack trace of a failed query, each of them once more.

The runner of the fragment logs the failure in one line; a handover ends a query in this way.
"""

_JAVA_OPTIONS = (
    "-Xss16m",  # deep plans overflow the JVM's default stack
    "-XX:+UseSerialGC",
    # A micro-batch is small: better compiled code costs a small machine more than it gains.
    "-XX:TieredStopAtLevel=1",
    # The default for one level is 48 MB: once that is full, the JVM compiles nothing more.
    "-XX:ReservedCodeCacheSize=128m",
    # By default, the JVM maps its class archives at another address than recorded, and so changes
    # all of their pages: 140 MB that are file cache otherwise.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
    # The heap begins small, grows with its use, and returns unused memory. By default, it begins
    # with 1/64 of the machine's memory, and grows to three times the used memory.
    "-Xms64m",
    "-XX:MinHeapFreeRatio=15",
    "-XX:MaxHeapFreeRatio=30",
    # Of native memory, one pool for Arrow and Spark's network instead of one for each thread.
    "-Dio.netty.allocator.numDirectArenas=1",
    "-Dio.netty.allocator.numHeapArenas=1",
)


_MIN_YOUNG_MB = 48
_YOUNG_SHARE = 1 / 16
"""The maximum size of the heap's young generation, in MB and as a share of the heap.

By default it is a third of the heap, which the JVM fills before it collects.
"""


def start_session(
    master: str, driver_memory: str, java_options: Sequence[str] = ()
) -> SparkSession:
    """Start Spark in a JVM of its own, and return the session; the start takes about 6 s.

    ``master``: the URL of Spark's master. ``driver_memory``: the heap of the JVM, in Java's
    notation. ``java_options``: further options of the JVM.
    """
    # A process that is forked may have no threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # The JVM has 100 threads: with an arena for each, the C library returns little memory.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # By default Spark starts the python3 on the PATH, which may lack pyarrow.
    python = start_fork_server()
    os.environ["PYSPARK_PYTHON"] = python
    os.environ["SPARK_HOME"] = str(installed_spark())
    young_mb = max(_MIN_YOUNG_MB, int(_YOUNG_SHARE * heap_mb(driver_memory)))
    options = (*_JAVA_OPTIONS, f"-XX:MaxNewSize={young_mb}m", *java_options)
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.pyspark.python": python,
        "spark.sql.adaptive.enabled": "false",
        # Generating code for each micro-batch costs more than it saves on few rows: without it,
        # the JVM needs a sixth of a core less.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # One partition: all windows of a tick meet in one task, which evaluates the insights.
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        # Otherwise Spark measures all rows of a batch again at each row: a fifth of its CPU.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        # The source announces the watermark a batch ahead: a batch without data would close early.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.pollingDelay": "20ms",
        # Hadoop's local file system starts a `chmod` process and a checksum file for each file
        # of a checkpoint; this pair does neither (a third less time a micro-batch).
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        # Hadoop sets modes itself, and ignores the umask of the process.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        ),
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.metricsEnabled": "false",
        # Spark describes the plans of each micro-batch, also without a user interface.
        "spark.sql.ui.explainMode": "simple",
        # Spark retains these for its user interface, which is disabled: plans as text, for example.
        # The CPU times of queries are read from the jobs and stages.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "200",
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
    _silence_failures(session)
    session.dataSource.register(MistbowSource)
    session.dataSource.register(PanesSource)
    session.dataSource.register(MistbowSink)
    return session


def _silence_failures(session: SparkSession) -> None:
    jvm: Any = session._jvm
    log4j = jvm.org.apache.logging.log4j
    for name in _FAILURE_LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def adopt_thread(session: SparkSession) -> None:
    """Make ``session`` the active session of the calling thread.

    Spark looks up sinks in the active session.
    """
    sessions = SparkSession._get_j_spark_session_class(session._jvm)
    sessions.setActiveSession(session._jsparkSession)


def warm_up(session: SparkSession) -> None:
    """Run a small query, which loads code and starts Python processes before the first real query.

    Spark starts a Python process for each call of a source or a sink, one after another. These
    starts take half of the time to the first result. The small query starts the processes, but
    reads and writes no stream. Raises the error of the small query if this query fails.
    """
    # The calling thread need not be the one that started the session.
    adopt_thread(session)
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
        lower(
            generate_points(session, 10),
            Computation(plan=plan, after={"warm": 0}, pane_folder=folder / "p"),
        )
        .writeStream.format("mistbow-sink")
        .options(url="", stream="", epoch=0)
        .option("checkpointLocation", str(folder / "c"))
        .start()
    )
    deadline = time.monotonic() + _WARM_UP_TIMEOUT_S
    while query.isActive and query.lastProgress is None and time.monotonic() < deadline:
        time.sleep(0.05)
    failure = query.exception()
    query.stop()
    shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def generate_points(session: SparkSession, rows: int, **given: Column) -> DataFrame:
    """Return points that Spark generates, routed to pane 0.

    ``rows``: the number of points per micro-batch. The points have the columns of the source
    ``mistbow``; ``given`` sets further columns. All other columns are null.
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
    columns = needed | given
    return points.select(
        *(
            columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in from_arrow_schema(BATCHED_WITH_FRONTIER)
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
    """Return whether the JVM of a session still runs."""
    process = getattr(session.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None
