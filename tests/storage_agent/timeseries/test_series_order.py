"""The order of series, in chunks, against Python's order of pairs of texts."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_agent.http.points import ListBody
from storage_agent.series import Series
from storage_agent.timeseries import series_order
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.series_order import SeriesOrder

# Beyond U+FFFF the orders of UTF-16 and of UTF-8 differ.
_TEXTS = st.text(st.sampled_from("ab\0é\uffff\U00010000"), max_size=3)
_SERIES = st.tuples(_TEXTS, _TEXTS)


def catalogue_of(series: Sequence[Series]) -> Catalogue:
    catalogue = Catalogue()
    for metric, entity in series:
        catalogue.describe((metric, entity), {"metricID": metric, "entityID": entity})
    return catalogue


async def read(order: SeriesOrder, after: Series | None) -> list[Series]:
    return [each async for chunk in order.after(after) for each in chunk]


@given(series=st.lists(_SERIES, unique=True), after=st.lists(_SERIES, max_size=3), size=st.data())
def test_series_after_any_other_are_in_the_order_of_their_texts(
    series: list[Series], after: list[Series], size: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(series_order, "_CHUNK_SERIES", size.draw(st.integers(1, 5)))
        patch.setattr(series_order, "_MAX_TEXTS", size.draw(st.integers(1, 3)))
        order = SeriesOrder(catalogue_of(series), ListBody())
        for each in (None, *after):
            expected = sorted(one for one in series if each is None or one > each)
            assert asyncio.run(read(order, each)) == expected


async def test_parts_of_one_answer_have_the_series_of_its_first_part() -> None:
    catalogue = catalogue_of([("m", "a"), ("m", "c")])
    order = SeriesOrder(catalogue, ListBody())
    assert await read(order, None) == [("m", "a"), ("m", "c")]
    catalogue.describe(("m", "b"), {"metricID": "m", "entityID": "b"})
    assert await read(order, ("m", "a")) == [("m", "c")]
