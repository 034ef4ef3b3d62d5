"""A fragment's runner while a test lasts."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from analytics_worker.runner import FragmentRunner, Turns
from analytics_worker.spark.library import SparkLibrary
from mistbow.client.agent import AgentClient
from mistbow.plan.fragments import Fragment


@contextmanager
def running(spark: SparkSession, agent: AgentClient, first: Fragment) -> Iterator[FragmentRunner]:
    """Run a fragment, and stop it in any case."""
    runner = FragmentRunner(SparkLibrary(spark, agent.url), agent, first, Turns())
    try:
        yield runner
    finally:
        runner.stop()
