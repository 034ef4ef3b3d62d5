"""The CPU time that one Spark query has taken, in the JVM and in Python processes.

- The thread of the query plans the micro-batches; the JVM measures its CPU time.
- The tasks of a micro-batch run in the JVM's pool of threads. Spark measures their CPU time for
  each stage, and marks the jobs of a query with the id of its run (the job group).
- Python processes record their CPU time for each query (``task_usage``).
"""

import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from analytics_worker.spark.task_usage import TaskUsage, read_usage

PERIOD_S = 5.0
"""The time (s) between measurements: each takes about 3 ms of CPU time."""

_MAX_JOBS = 3
"""The number of jobs that are measured each time; the other micro-batches count as their mean."""


class QueryCpu:
    """Measures the CPU time (s) of a query and the rows that it has read, every ``PERIOD_S``."""

    def __init__(self, session: SparkSession, query: StreamingQuery, folder: Path) -> None:
        """``folder``: the folder of the usage that Python processes record."""
        jvm: Any = session._jvm
        self._threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        self._thread = query._jsq.streamingQuery().queryExecutionThread().getId()
        self._tracker = session.sparkContext.statusTracker()
        self._stages: Any = session.sparkContext._jsc.sc().statusStore()
        self._run = str(query.runId)
        self._folder = folder
        self._measured_at = time.monotonic()
        self._last_job = -1
        self._batches = 0
        self._tasks_s = 0.0
        self.usage = TaskUsage()
        """The usage up to the last measurement, with the CPU time of the JVM and of Python."""

    def measure(self, batches: int) -> None:
        """Measure if it is time; ``batches``: the number of micro-batches that have ended."""
        if time.monotonic() - self._measured_at < PERIOD_S:
            return
        self._measured_at = time.monotonic()
        self._tasks_s += self._mean_job_s() * (batches - self._batches)
        self._batches = batches
        thread_ns = max(self._threads.getThreadCpuTime(self._thread), 0)
        python = read_usage(self._folder)
        cpu_s = max(thread_ns / 1e9 + self._tasks_s + python.cpu_s, self.usage.cpu_s)
        self.usage = TaskUsage(cpu_s, python.rows_read)

    def _mean_job_s(self) -> float:
        """Return the mean CPU time (s) of the tasks of the jobs that ended since the last call."""
        jobs = sorted(self._tracker.getJobIdsForGroup(self._run), reverse=True)
        times: list[float] = []
        last = self._last_job
        for job in jobs[: _MAX_JOBS + 1]:
            info = self._tracker.getJobInfo(job)
            if job <= self._last_job or len(times) == _MAX_JOBS or info is None:
                break
            if info.status == "SUCCEEDED":
                times.append(sum(map(self._stage_s, info.stageIds)))
                last = max(last, job)
        self._last_job = last
        return sum(times) / len(times) if times else 0.0

    def _stage_s(self, stage: int) -> float:
        return float(self._stages.lastStageAttempt(stage).executorCpuTime()) / 1e9
