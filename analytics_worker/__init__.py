"""The analytics worker: a service that runs fragments of insights on Spark Structured Streaming."""

from analytics_worker.arrow_without_pandas import leave_pandas_out

# Before any module of this package makes an array.
leave_pandas_out()
