# ruff: noqa: F401
"""What Spark's Python processes have in common, loaded once by the one that they are forked from.

Spark starts a process for each thing that a source or a sink does, each forked from a daemon of its
own kind. Forked with everything loaded, they start in no time and share its memory.
"""

import gc

import pandas  # type: ignore[import-untyped]
import pyarrow.compute
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.worker

import analytics_worker.spark.panes_source
import analytics_worker.spark.sink

# They collect garbage after each task: what is loaded for good need not be gone through, or copied.
gc.freeze()
