# ruff: noqa: F401
"""The modules that Spark's Python processes need, imported once before the processes are forked."""

import gc

import pandas  # type: ignore[import-untyped]
import pyarrow.compute
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker

import analytics_worker.spark.panes_source
import analytics_worker.spark.sink

# The processes collect garbage after each task: frozen objects are neither visited nor copied.
gc.freeze()
