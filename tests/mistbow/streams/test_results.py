import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mistbow.streams.results import current_results, latest_revisions
from mistbow.streams.schemas import RESULT_ROWS

_row = st.fixed_dictionaries(
    {
        "insight": st.sampled_from(["i", "j"]),
        "key": st.sampled_from(["{}", "k"]),
        "ts": st.integers(0, 3),
        "value": st.none() | st.floats(-1, 1),
        "text": st.sampled_from([None, None, "u33d"]),
        "revision": st.integers(0, 3),
        "computed_at": st.integers(0, 9),
    }
)


@given(st.lists(_row, max_size=40))
def test_latest_revisions_returns_the_highest_and_of_equal_ones_the_first(rows: list[dict]) -> None:
    best: dict[tuple, dict] = {}
    for row in rows:
        identity = (row["ts"], row["insight"], row["key"])
        if identity not in best or row["revision"] > best[identity]["revision"]:
            best[identity] = row
    expected = [best[identity] for identity in sorted(best)]
    table = pa.Table.from_pylist(rows, RESULT_ROWS)
    columns = ["insight", "key", "ts", "value", "text", "revision", "computed_at"]
    assert latest_revisions(table).select(columns).to_pylist() == expected
    present = [row for row in expected if (row["value"], row["text"]) != (None, None)]
    assert current_results(table).num_rows == len(present)
