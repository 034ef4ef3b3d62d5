"""The search for series in the catalogue."""

import asyncio
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from mistbow.runtime.slices import Slices
from mistbow.streams.schemas import POINTS
from storage_agent.agent.recovery import SeriesOfSegments
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.series import Metadata
from storage_agent.streams.index import IndexEntry
from storage_agent.streams.segments import Segment, SegmentHeader, empty_batch
from storage_agent.timeseries import catalogue as catalogue_module
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.series_index import LatestValue

_METRICS = st.sampled_from("abc")
_ENTITIES = st.sampled_from("uvwx")
_SERIES = st.tuples(_METRICS, _ENTITIES)


def segment_of(
    first: int, series: tuple[str, str], rows: pa.RecordBatch | None = None, **more: str
) -> Segment:
    metadata = {"metricID": series[0], "entityID": series[1], **more}
    header = SegmentHeader(
        stream="raw",
        first=first,
        count=1,
        epoch=1,
        nonce="",
        frontier=0,
        frontier_before=0,
        created=0,
        series=[metadata],
    )
    return Segment(header, rows or empty_batch(POINTS), empty_batch(POINTS))


@given(
    steps=st.lists(st.tuples(_SERIES, st.booleans()), max_size=20),
    metrics=st.frozensets(_METRICS),
    entities=st.frozensets(_ENTITIES),
)
def test_catalogue_finds_series_by_metric_and_entity(
    steps: list[tuple[tuple[str, str], bool]], metrics: frozenset[str], entities: frozenset[str]
) -> None:
    catalogue = Catalogue()
    there: set[tuple[str, str]] = set()
    for first, (series, stays) in enumerate(steps):
        if stays:
            asyncio.run(catalogue.apply(segment_of(first, series)))
            there.add(series)
        else:
            catalogue.set_latest(series, None)
            there.discard(series)
    assert sorted(catalogue.select(metrics, entities)) == sorted(
        (metric, entity)
        for metric, entity in there
        if (not metrics or metric in metrics) and (not entities or entity in entities)
    )


class Published(FabricMembership):
    """A membership that records which series are published."""

    def __init__(self) -> None:
        self.series: list[Metadata] = []

    def publish_series(self, series: Iterable[Metadata]) -> None:
        self.series += series


async def test_series_removed_while_its_segment_is_applied_is_published_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue, published = Catalogue(), Published()
    await catalogue.apply(segment_of(0, ("m", "e"), units="W"))

    class Removing(Slices):
        async def pause(self) -> None:
            # As after a deletion, whose recheck read the rows before this segment.
            catalogue.set_latest(("m", "e"), None)

    monkeypatch.setattr(catalogue_module, "Slices", Removing)
    words = [pa.array([each]).dictionary_encode() for each in ("m", "e", "{}")]
    rows = pa.record_batch([*words, pa.array([5]), pa.array([1.5])], schema=POINTS)
    # The metadata was the same when the points were encoded, so the segment does not contain it.
    header = structs.replace(segment_of(1, ("m", "e")).header, series=[])
    segment = Segment(header, rows, empty_batch(POINTS))
    entry = IndexEntry.of_segment(segment)
    await SeriesOfSegments(catalogue, published).apply(segment, entry)
    expected = {"metricID": "m", "entityID": "e", "units": "W"}
    assert catalogue.metadata(("m", "e")) == expected
    assert published.series == [expected]
    latest = catalogue.latest(("m", "e"))
    assert latest is not None
    assert (latest.ts, latest.value) == (5, 1.5)


async def test_series_removed_before_it_is_published_is_not_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catalogue, published = Catalogue(), Published()
    segment = segment_of(0, ("m", "e"))
    entry = IndexEntry.of_segment(segment)
    apply = catalogue.apply

    async def remove_after(segment: Segment) -> list[Metadata]:
        changed = await apply(segment)
        catalogue.set_latest(("m", "e"), None)
        return changed

    monkeypatch.setattr(catalogue, "apply", remove_after)
    await SeriesOfSegments(catalogue, published).apply(segment, entry)
    assert published.series == []
    monkeypatch.undo()
    await SeriesOfSegments(catalogue, published).apply(segment, entry)
    assert published.series == [{"metricID": "m", "entityID": "e"}]


def test_reads_share_a_selection_of_all_series_until_one_changes() -> None:
    series, before = [("m", "a"), ("m", "b")], [10]
    catalogue = Catalogue(lambda: before[0])
    for number, each in enumerate(series):
        catalogue.describe(each, {"metricID": "m", "entityID": each[1]})
        catalogue.set_latest(each, LatestValue(1, 1.0, 10 + number, 10 + number))
    first = catalogue.select()
    assert catalogue.select() is first
    before[0] = 11
    later = catalogue.select()
    assert later.metric is first.metric
    assert (first.has_latest.tolist(), later.has_latest.tolist()) == ([True, True], [False, True])
    before[0] = 5  # a longer retention
    assert catalogue.select().has_latest.tolist() == [True, True]
    changes: list[Callable[[], None]] = [
        lambda: catalogue.set_latest(series[0], LatestValue(2, 7.0, 12, 12)),
        lambda: catalogue.describe(series[0], {"metricID": "m", "entityID": "a", "units": "V"}),
        lambda: catalogue.describe(("n", "c"), {"metricID": "n", "entityID": "c"}),
        lambda: catalogue.set_latest(series[1], None),
    ]
    for change in changes:
        shared = catalogue.select()
        change()
        assert catalogue.select() is not shared
        assert catalogue.select().metric is not shared.metric
    assert dict(catalogue.select()) == {
        ("m", "a"): {"metricID": "m", "entityID": "a", "units": "V"},
        ("n", "c"): {"metricID": "n", "entityID": "c"},
    }
