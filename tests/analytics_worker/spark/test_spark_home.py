"""The folder from which Spark is started, and the modules that Spark's Python processes load."""

import os
import subprocess
import sys

import pytest

from analytics_worker.spark.spark_home import installed_spark, spark_home

pytestmark = pytest.mark.usefixtures("processes")


def test_spark_s_own_jars_and_scripts_are_there_and_its_zip_is_not() -> None:
    home, own = spark_home(), installed_spark()
    assert home != own
    assert (home / "bin" / "spark-submit").resolve() == (own / "bin" / "spark-submit").resolve()
    assert (home / "jars").resolve() == (own / "jars").resolve()
    assert (home / "python" / "lib" / "pyspark.zip").is_dir()
    assert spark_home() == home


@pytest.mark.parametrize(("argument", "loaded"), [("pyspark.daemon", True), ("else", False)])
def test_only_the_daemon_loads_all_modules(argument: str, loaded: bool) -> None:
    zipped = spark_home() / "python" / "lib" / "pyspark.zip"
    script = "import sys; print('analytics_worker.spark.sink' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, argument],
        env={**os.environ, "PYTHONPATH": str(zipped)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(loaded)
