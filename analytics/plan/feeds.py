"""Feeds: streams that are not raw streams, read as points; and the roles of their columns."""

import msgspec

TIME = "ts"
"""The column that an agent compares with the bounds of a time range to select rows."""


class Feed(msgspec.Struct, frozen=True):
    """A stream whose rows are read as points.

    - ``site``: the site of the stream; None: the enabler's site.
    - ``time``: a column of timestamps, or of integers (ms since the epoch).
    - ``metric``, ``value``: the columns with the name and with the value of the metric. None: each
      numeric column is a metric with the name of the column, and each row is a point of every
      metric.
    - ``entity``: the column with the measured entity; None: the entity is named like the stream.
    - ``attributes``: the columns that BY and WHEN may name; None: all columns of texts or booleans.
    """

    stream: str
    site: str | None = None
    time: str = TIME
    metric: str | None = None
    value: str | None = None
    entity: str | None = None
    attributes: tuple[str, ...] | None = None

    @property
    def named(self) -> tuple[str, ...]:
        """The distinct names of the columns that have a role."""
        columns = (self.time, self.metric, self.value, self.entity, *(self.attributes or ()))
        return tuple(dict.fromkeys(column for column in columns if column is not None))
