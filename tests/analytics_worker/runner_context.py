"""A context manager that runs a fragment."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from analytics.plan.fragments import Fragment
from analytics_worker.lifecycle.runner import FragmentRunner
from analytics_worker.lifecycle.start_slot import StartSlot
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.agent import AgentClient


@contextmanager
def running(spark: SparkSession, agent: AgentClient, first: Fragment) -> Iterator[FragmentRunner]:
    """Run a fragment within the ``with``; yield its runner, and stop the runner at the end."""
    runner = FragmentRunner(SparkLibrary(spark, agent.url), agent, first, StartSlot(lambda: True))
    runner.start()
    try:
        yield runner
    finally:
        runner.stop()
