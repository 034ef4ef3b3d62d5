"""Which series the catalogue finds by metric and entity."""

from hypothesis import given
from hypothesis import strategies as st

from mistbow.streams.schemas import POINTS
from storage_agent.monitoring.catalogue import Catalogue
from storage_agent.streams.segments import Header, Segment, no_rows

_METRICS = st.sampled_from("abc")
_ENTITIES = st.sampled_from("uvwx")
_SERIES = st.tuples(_METRICS, _ENTITIES)


def told(first: int, series: tuple[str, str]) -> Segment:
    metadata = {"metricID": series[0], "entityID": series[1]}
    header = Header(
        stream="raw",
        first=first,
        count=1,
        epoch=1,
        nonce="",
        frontier=0,
        horizon=0,
        created=0,
        series=[metadata],
    )
    return Segment(header, no_rows(POINTS), no_rows(POINTS))


@given(
    steps=st.lists(st.tuples(_SERIES, st.booleans()), max_size=20),
    metrics=st.frozensets(_METRICS),
    entities=st.frozensets(_ENTITIES),
)
def test_series_are_found_by_metric_and_entity(
    steps: list[tuple[tuple[str, str], bool]], metrics: frozenset[str], entities: frozenset[str]
) -> None:
    catalogue = Catalogue()
    there: set[tuple[str, str]] = set()
    for first, (series, stays) in enumerate(steps):
        if stays:
            catalogue.apply(told(first, series))
            there.add(series)
        else:
            catalogue.correct(series, None)
            there.discard(series)
    found = [series for series, _ in catalogue.among(metrics, entities)]
    assert sorted(found) == sorted(
        (metric, entity)
        for metric, entity in there
        if (not metrics or metric in metrics) and (not entities or entity in entities)
    )
