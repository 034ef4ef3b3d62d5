"""The index of series against a dict of series."""

import random
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage_agent.timeseries import checkpoint
from storage_agent.timeseries.selection import describe, description_of
from storage_agent.timeseries.series_index import LatestValue, SeriesIndex

_METRICS = st.sampled_from(["cpu", "memory", "load", "ü"])
_ENTITIES = st.sampled_from([f"entity-{n}" for n in range(30)])
_SERIES = st.tuples(_METRICS, _ENTITIES)
_TIMES = st.integers(0, 100)


class IndexMachine(RuleBasedStateMachine):
    """Adds, changes and removes series in an index and in a dict, and compares the two."""

    def __init__(self) -> None:
        super().__init__()
        self.index = SeriesIndex()
        self.metadata: dict[tuple[str, str], dict[str, Any]] = {}
        self.latest: dict[tuple[str, str], LatestValue] = {}

    @rule(series=_SERIES, units=st.sampled_from([None, "W", "%"]))
    def describe_series(self, series: tuple[str, str], units: str | None) -> None:
        metadata = {"metricID": series[0], "entityID": series[1]}
        metadata |= {} if units is None else {"units": units}
        self.metadata[series] = metadata
        self.index.set_description(series, description_of(metadata))

    @rule(series=_SERIES, ts=_TIMES, value=st.floats(allow_nan=False), seen=_TIMES)
    def set_latest(self, series: tuple[str, str], ts: int, value: float, seen: int) -> None:
        if series in self.metadata:
            self.latest[series] = LatestValue(ts, value, seen, seen)
            self.index.set_latest(self.index.number(*series), ts, value, seen, seen)

    @rule(series=_SERIES)
    def remove(self, series: tuple[str, str]) -> None:
        number = self.index.number(*series)
        assert (number > 0) == (series in self.metadata)
        if number:
            self.index.remove(number)
            del self.metadata[series]
            self.latest.pop(series, None)

    @rule()
    def restart(self) -> None:
        """Encode all series as blocks, and read the blocks into another index."""
        parts = checkpoint.encode_block(self.index.select(self.index.find()))
        self.index = SeriesIndex()
        store = checkpoint.CatalogueStore(self.index)
        number = 1
        for part in parts:
            number = store.add_block(part, number)

    @rule(metrics=st.frozensets(_METRICS), entities=st.frozensets(_ENTITIES))
    def find(self, metrics: frozenset[str], entities: frozenset[str]) -> None:
        found = self.index.select(self.index.find(metrics, entities))
        assert dict(found.items()) == {
            series: metadata
            for series, metadata in self.metadata.items()
            if (not metrics or series[0] in metrics) and (not entities or series[1] in entities)
        }

    @rule(before=_TIMES)
    def select(self, before: int) -> None:
        found = self.index.select_all(before)
        assert list(found.rows()) == list(self.index.select(self.index.find()).rows())
        columns = (found.has_latest, found.ts, found.value, found.created, found.seen)
        rows = zip(found, *(each.tolist() for each in columns), strict=True)
        assert {series: LatestValue(*latest) for series, has, *latest in rows if has} == {
            series: latest for series, latest in self.latest.items() if latest.created >= before
        }

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.index) == len(self.metadata)
        assert len(self.index.entities) == len({entity for _, entity in self.metadata})
        described = {msgspec.json.encode(description_of(each)) for each in self.metadata.values()}
        assert len(self.index.descriptions) == len(described)
        for series, metadata in self.metadata.items():
            number = self.index.number(*series)
            assert describe(*series, self.index.description(number)) == metadata
            assert self.index.latest(number) == self.latest.get(series)
        for metric in ("cpu", "memory"):
            of_metric = [series for series in self.metadata if series[0] == metric]
            assert self.index.count_of_metric(metric) == len(of_metric)


TestSeriesIndex = IndexMachine.TestCase
TestSeriesIndex.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)


def test_selection_stays_as_it_was_when_index_changes() -> None:
    index = SeriesIndex()
    for number in range(3000):
        index.set_description(("m", f"e{number}"), b"{}")
    few, all_series = index.select(index.find(entities=["e7"])), index.select_all()
    for number in range(3000):
        index.remove(index.number("m", f"e{number}"))
    for number in range(5000):
        index.set_description(("other", f"f{number}"), b'{"units":"W"}')
    assert list(few) == [("m", "e7")]
    assert list(all_series) == [("m", f"e{number}") for number in range(3000)]
    assert all_series["m", "e8"] == {"metricID": "m", "entityID": "e8"}


def test_block_of_long_descriptions_is_stored_in_parts() -> None:
    index = SeriesIndex()
    chance = random.Random(0)  # noqa: S311
    for number in range(4):
        text = "".join(chr(chance.randrange(0x4E00, 0x9000)) for _ in range(300_000))
        index.set_description(("m", f"e{number}"), msgspec.json.encode({"desc": text}))
    parts = checkpoint.encode_block(index.select(index.find()))
    assert len(parts) > 1
    again = SeriesIndex()
    store, number = checkpoint.CatalogueStore(again), 1
    for part in parts:
        number = store.add_block(part, number)
    assert dict(again.select(again.find())) == dict(index.select(index.find()))


def test_described_metrics_has_each_pair_once() -> None:
    index = SeriesIndex()
    for number in range(3000):
        units = b'{"units":"W"}' if number % 3 else b"{}"
        index.set_description((f"m{number % 2}", f"e{number}"), units)
    assert sorted(index.select_all().described_metrics(), key=str) == [
        ("m0", {"units": "W"}),
        ("m0", {}),
        ("m1", {"units": "W"}),
        ("m1", {}),
    ]
