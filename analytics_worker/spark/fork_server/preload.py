# ruff: noqa: F401
"""The modules that Spark's Python processes need, imported once before the processes are forked.

The processes share the memory of these modules. A module that each process imports itself needs
memory in each process.
"""

import gc

import pyarrow.acero
import pyarrow.compute
import pyarrow.dataset
import pyspark.daemon
import pyspark.sql.pandas.serializers
import pyspark.sql.pandas.types
import pyspark.sql.streaming.python_streaming_source_runner
import pyspark.sql.worker.create_data_source
import pyspark.sql.worker.lookup_data_sources
import pyspark.sql.worker.plan_data_source_read
import pyspark.sql.worker.python_streaming_sink_runner
import pyspark.sql.worker.write_into_data_source
import pyspark.worker

import analytics_worker.spark.failure_accumulator
import analytics_worker.spark.lowering
import analytics_worker.spark.panes_source
import analytics_worker.spark.sink
import analytics_worker.spark.source

gc.collect()
# The processes collect garbage after each task: frozen objects are neither visited nor copied.
gc.freeze()
