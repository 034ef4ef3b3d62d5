"""Feeds: streams other than raw ones as sources of points, and which of their columns mean what."""

import msgspec

TIME = "ts"
"""The column by whose times agents select rows."""


class Feed(msgspec.Struct, frozen=True):
    """A stream of a site (None: the enabler's own) whose rows are points.

    ``time``: a column of integers, ms since the epoch, or of timestamps. A row is a point of each
    numeric column, whose name is the metric; with ``metric`` and ``value``, of the metric that the
    one column names, its value in the other. ``entity``: the column that says what was measured,
    None: the stream itself. ``attributes``: the columns that BY and WHEN may name, None: all of
    texts and truth values.
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
        """The columns that it names."""
        columns = (self.time, self.metric, self.value, self.entity, *(self.attributes or ()))
        return tuple(dict.fromkeys(column for column in columns if column is not None))
