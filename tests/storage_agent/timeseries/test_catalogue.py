"""The search for series in the catalogue."""

from hypothesis import given
from hypothesis import strategies as st

from mistbow.streams.schemas import POINTS
from storage_agent.streams.segments import Segment, SegmentHeader, empty_batch
from storage_agent.timeseries.catalogue import Catalogue

_METRICS = st.sampled_from("abc")
_ENTITIES = st.sampled_from("uvwx")
_SERIES = st.tuples(_METRICS, _ENTITIES)


def segment_of(first: int, series: tuple[str, str]) -> Segment:
    metadata = {"metricID": series[0], "entityID": series[1]}
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
    return Segment(header, empty_batch(POINTS), empty_batch(POINTS))


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
            catalogue.apply(segment_of(first, series))
            there.add(series)
        else:
            catalogue.set_latest(series, None)
            there.discard(series)
    found = [series for series, _ in catalogue.find(metrics, entities)]
    assert sorted(found) == sorted(
        (metric, entity)
        for metric, entity in there
        if (not metrics or metric in metrics) and (not entities or entity in entities)
    )
