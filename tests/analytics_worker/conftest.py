from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from analytics_worker.spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = start_session("local[2]", "768m")
    yield session
    session.stop()
