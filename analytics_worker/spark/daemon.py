"""What Spark's Python processes are forked from: PySpark's daemon, with our code loaded before.

Spark starts a process for each thing that a source or a sink does; forked from this one, they
have what they need and do not load it each.
"""

from pyspark import daemon

import analytics_worker.spark.panes_source
import analytics_worker.spark.sink  # noqa: F401 - loaded for the processes forked from this one

if __name__ == "__main__":
    daemon.manager()
