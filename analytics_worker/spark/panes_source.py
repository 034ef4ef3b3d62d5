"""The Spark source ``mistbow-panes``: the panes of several sites as one streaming DataFrame.

Options: ``url`` (of the agent), ``sources`` and ``decisions`` (JSON of ``Place``), ``panes`` (JSON
of the panes' ids, in the order of the plan), ``starts`` (JSON: the first number at each site),
``unsought`` (JSON: the sites that could not be asked for that; once they can, what is later than
``needs``, in ms, is read of them), ``grain`` (ms: how often windows close), ``patience`` (ms),
``since`` (ms: up to where the results stand), ``after`` (ms: ticks later than that are told),
``epoch`` (of the stream of decisions), ``target`` (JSON of ``Place``) and ``fingerprint``: the
query decides only if the target's attribute ``decides`` names it. As a batch DataFrame it takes
``min_ts`` and ``max_ts`` (ms, inclusive) instead of these.
"""

import threading
import time
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from analytics_worker.connection import connect
from analytics_worker.merging.assembly import Assembly, Heard
from analytics_worker.merging.decisions import (
    Decided,
    Late,
    LateSpan,
    Presence,
    as_row,
)
from analytics_worker.merging.known import presence
from analytics_worker.spark.contents import PANE_COLUMNS
from analytics_worker.windowing.windows import PLACED
from mistbow.clock import system_clock
from mistbow.errors import NotFoundError, UnavailableError
from mistbow.plan.fragments import Place

_PAUSE_S = 0.3
_LONGEST_WAIT_S = 0.25
_LISTEN_MS = 2000
_ALL_ROWS = 2**62


@dataclass(frozen=True, slots=True)
class PanesOptions:
    """What to read, from where."""

    url: str
    sources: tuple[Place, ...]
    panes: tuple[str, ...]
    decisions: Place | None
    target: Place | None
    fingerprint: str
    starts: Mapping[str, int]
    unsought: frozenset[str]
    needs: int
    grain_ms: int
    patience_ms: int
    since: int
    after: int
    epoch: int
    min_ts: int | None
    max_ts: int | None

    @classmethod
    def parse(cls, options: MutableMapping[str, str]) -> "PanesOptions":
        """Read Spark's options; raises ``ValueError`` for one that is missing or wrong."""
        for needed in ("url", "sources", "panes"):
            if needed not in options:
                raise ValueError(f"the mistbow-panes source needs the option '{needed}'")

        def place(name: str) -> Place | None:
            return msgspec.json.decode(options[name], type=Place) if name in options else None

        def number(name: str) -> int:
            return int(options.get(name, 0))

        return cls(
            url=options["url"],
            sources=msgspec.json.decode(options["sources"], type=tuple[Place, ...]),
            panes=msgspec.json.decode(options["panes"], type=tuple[str, ...]),
            decisions=place("decisions"),
            target=place("target"),
            fingerprint=options.get("fingerprint", ""),
            starts=msgspec.json.decode(options.get("starts", "{}"), type=dict[str, int]),
            unsought=msgspec.json.decode(options.get("unsought", "[]"), type=frozenset[str]),
            needs=number("needs"),
            grain_ms=number("grain") or 1000,
            patience_ms=number("patience"),
            since=number("since"),
            after=number("after"),
            epoch=number("epoch"),
            min_ts=number("min_ts") if "min_ts" in options else None,
            max_ts=number("max_ts") if "max_ts" in options else None,
        )


class PanesSource(DataSource):
    """Registers under the name ``mistbow-panes``."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "mistbow-panes"

    def schema(self) -> StructType:
        """Return the columns of panes on their way to windows."""
        return from_arrow_schema(PLACED)

    def streamReader(self, schema: StructType) -> "PanesStreamReader":  # noqa: ARG002, N802
        """Return the reader of a streaming query."""
        return PanesStreamReader(PanesOptions.parse(self.options))

    def reader(self, schema: StructType) -> "PanesBatchReader":  # noqa: ARG002
        """Return the reader of a batch query."""
        return PanesBatchReader(PanesOptions.parse(self.options))


@dataclass(frozen=True)
class PaneRange(InputPartition):
    """Rows of each site, from a number to another; windows up to ``closed`` (ms) are closed
    already, and with these rows those up to ``closing``.
    """

    starts: dict[str, int]
    ends: dict[str, int]
    closed: int
    closing: int
    absent: tuple[str, ...] = ()


class PanesStreamReader(DataSourceStreamReader):
    """Follows all sites; a micro-batch holds what came before the tick that was promised.

    As in the source of points, a tick is promised one batch ahead (docs/adr/0002): here always
    the next one, for panes come tick by tick.
    """

    def __init__(self, options: PanesOptions) -> None:
        self._options = options
        self._watch: _Watch | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Spark's tasks get a copy, to read with; it is the driver's that watches.
        return {"_options": self._options, "_watch": None}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Start at the numbers asked for."""
        options = self._options
        starts = {place.site: options.starts.get(place.site, 0) for place in options.sources}
        promise = options.since // options.grain_ms * options.grain_ms
        return {"next": starts, "frontier": 0, "promise": promise, "closed": 0}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:  # noqa: ARG002, N802
        """Return how far to read now, or ``start`` while it is too early for a batch."""
        if self._watch is None:
            self._watch = _Watch(self._options, start["next"])
        watch, promise = self._watch, start["promise"]
        heard = watch.heard(_LONGEST_WAIT_S, promise)
        frontier = watch.frontier(heard, promise)
        if frontier < promise:
            return start
        return {
            "next": {site: max(one.next, start["next"][site]) for site, one in heard.items()},
            "frontier": frontier,
            "promise": watch.assembly.next_promise(frontier, promise),
            "closed": promise,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[PaneRange]:
        """Read a micro-batch in one task: panes are few.

        The first one comes even if it is too early for it, and its task has to note that nothing
        is closed: there is always a task.
        """
        watch = self._watch
        absent = watch.assembly.absent(watch.presence, start["promise"]) if watch else ()
        closed, closing = start["closed"], end["closed"]
        return [PaneRange(start["next"], end["next"], closed, closing, absent)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the panes, and the news of which windows end."""
        assert isinstance(partition, PaneRange)  # noqa: S101 - made by partitions()
        options = self._options
        for site, rows in _read_all(options, partition.starts, partition.ends):
            if rows.num_rows:
                # Of one that is absent, the ticks after it left are computed again in any case.
                told = 0 if site in partition.absent else partition.closed
                _tell_late(options, site, rows, told)
                yield from _routed(rows, options.panes, partition.closed)
        yield _news(partition.closing)


class PanesBatchReader(DataSourceReader):
    """Reads the panes of a time once, of all sites."""

    def __init__(self, options: PanesOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[PaneRange]:
        """Read everything in one task."""
        return [PaneRange({}, {}, 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the panes, each due at its end: a batch corrects what is closed."""
        options = self._options
        for _, rows in _read_all(options, {}, {}):
            if rows.num_rows:
                timely = rows.set_column(rows.column_names.index("due"), "due", rows["ts"])
                yield from _routed(timely, options.panes, 0)


@dataclass
class _Watch:
    """What the driver's side of a query knows: how far each site is, and what was decided."""

    options: PanesOptions
    starts: Mapping[str, int]
    presence: Presence = field(default_factory=Presence)

    def __post_init__(self) -> None:
        options = self.options
        self.assembly = Assembly(
            options.grain_ms, options.patience_ms, options.since, options.after
        )
        self._listeners = {
            place.site: _Listener(options.url, place, self.starts.get(place.site, 0))
            for place in options.sources
        }

    def heard(self, wait_s: float, promise: int) -> dict[str, Heard]:
        """Return how far each site is; waits a little for the promised tick."""
        deadline = time.monotonic() + wait_s
        while True:
            heard = {site: one.heard for site, one in self._listeners.items()}
            for one in self._listeners.values():
                if one.problem is not None:
                    raise one.problem  # the query starts anew, from where it has to
            left = deadline - time.monotonic()
            if left <= 0 or min(one.frontier for one in heard.values()) >= promise:
                return heard
            _Listener.news.wait(left)
            _Listener.news.clear()

    def frontier(self, heard: Mapping[str, Heard], promise: int) -> int:
        """Return how far event time is, by all that was decided before, here or elsewhere."""
        self._catch_up()
        decided = self.assembly.decide(heard, self.presence, promise, system_clock())
        if decided and self._decides():
            for one in decided:
                _store(self.options, one)
            self._catch_up()
        return self.assembly.frontier(heard, self.presence, promise)

    def _decides(self) -> bool:
        # Of two queries of a group, each hears other streams: they would never agree.
        place = self.options.target
        if place is None:
            return False
        target = connect(self.options.url, place.site).info(place.stream)
        return target.attributes.get("decides") == self.options.fingerprint

    def _catch_up(self) -> None:
        place = self.options.decisions
        if place is not None:
            self.presence = presence(connect(self.options.url), place)


class _Listener:
    """Learns how far one site's panes are, by asking it to answer as soon as that changes."""

    news = threading.Event()

    def __init__(self, url: str, place: Place, start: int) -> None:
        self.heard = Heard(start)
        self.problem: Exception | None = None
        self._client = connect(url, place.site)
        self._stream = place.stream
        threading.Thread(target=self._listen, name=f"hear {place.site}", daemon=True).start()

    def _listen(self) -> None:
        while True:
            before = self.heard
            try:
                found = self._client.offset(
                    self._stream,
                    before.next,
                    _ALL_ROWS,
                    wait_ms=_LISTEN_MS,
                    after_frontier=max(before.frontier, 0),
                )
            except (NotFoundError, UnavailableError):
                time.sleep(_PAUSE_S)  # nobody computes there yet, or it is away
            except Exception as error:
                # Such as a stream that is shorter than it was: its store was lost.
                self.problem = error
                _Listener.news.set()
                return
            else:
                # A stream that is made but was never written has said nothing.
                self.heard = Heard(found.next, max(found.frontier or -1, before.frontier))
                if self.heard != before:
                    _Listener.news.set()


def _read_all(
    options: PanesOptions,
    starts: Mapping[str, int],
    ends: Mapping[str, int],
) -> Iterator[tuple[str, pa.Table]]:
    """Read all sites' rows at once: what takes long is the way there and back."""
    wanted = [
        (place, starts.get(place.site, 0), ends.get(place.site))
        for place in options.sources
        if place.site not in ends or starts.get(place.site, 0) < ends[place.site]
    ]

    def read(part: tuple[Place, int, int | None]) -> tuple[str, pa.Table]:
        place, start, end = part
        client = connect(options.url, place.site)
        if place.site in options.unsought and start == options.starts[place.site]:
            start = min(start, client.seek(place.stream, options.needs))
        match = {"pane": list(options.panes)}
        rows = client.read(
            place.stream, start, end, match=match, min_ts=options.min_ts, max_ts=options.max_ts
        )
        return place.site, rows.table

    if not wanted:
        return
    with ThreadPoolExecutor(len(wanted)) as pool:
        yield from pool.map(read, wanted)


def _routed(rows: pa.Table, panes: Sequence[str], closed: int) -> Iterator[pa.RecordBatch]:
    """Yield panes in the shape ``PLACED``; what comes too late counts where it still can."""
    ids = rows["pane"].cast(pa.string())
    routed = pa.table(
        {
            "route": pc.index_in(ids, pa.array(panes, pa.string())),
            "key": rows["key"].cast(pa.string()),
            "pane": rows["ts"],
            "due": pc.max_element_wise(rows["due"], pa.scalar(closed + 1, pa.int64())),
            **{name: rows[name] for name in PANE_COLUMNS},
        },
        schema=PLACED,
    )
    yield from routed.filter(pc.is_valid(routed["route"])).combine_chunks().to_batches()


def _news(closing: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"due": closing}], PLACED)


def _tell_late(options: PanesOptions, site: str, rows: pa.Table, closed: int) -> None:
    """Store which panes came too late for windows, before those that are open take them in."""
    due = pc.max_element_wise(rows["due"], pa.scalar(closed + 1, pa.int64()))
    came_late = rows.set_column(rows.column_names.index("due"), "due", due)
    came_late = came_late.filter(pc.less(came_late["ts"], came_late["due"]))
    if not came_late.num_rows:
        return
    named = came_late.set_column(0, "pane", came_late["pane"].cast(pa.string()))
    grouped = named.group_by("pane", use_threads=False).aggregate(
        [("ts", "min"), ("ts", "max"), ("due", "max")]
    )
    spans = tuple(
        LateSpan(row["pane"], row["ts_min"], row["ts_max"], row["due_max"])
        for row in grouped.to_pylist()
    )
    _store(options, Decided(closed, site, Late(spans)))


def _store(options: PanesOptions, decided: Decided) -> None:
    place = options.decisions
    if place is not None:
        client = connect(options.url, place.site)
        client.append(place.stream, as_row(decided), epoch=options.epoch)
