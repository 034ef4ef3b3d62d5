"""Who is missing when, by the decisions of a stream."""

import pyarrow as pa

from analytics_worker.merging.decisions import (
    Decided,
    Decision,
    Forgotten,
    Joined,
    Late,
    LateSpan,
    Left,
    Presence,
    as_row,
    from_rows,
)


def presence(*decided: tuple[int, str, Decision]) -> Presence:
    known = Presence()
    known.learn(Decided(*one) for one in decided)
    return known


def test_a_site_is_missing_from_when_it_left_until_it_joins() -> None:
    known = presence((10, "a", Left()), (12, "b", Left()), (20, "a", Joined()))
    assert [known.missing(tick) for tick in (10, 11, 13, 20, 21)] == [
        (),
        ("a",),
        ("a", "b"),
        ("a", "b"),
        ("b",),
    ]
    assert known.open_gap("a") is None
    assert known.next_change(15) == 20
    assert known.next_change(21) is None


def test_who_has_left_does_not_leave_and_who_is_there_does_not_join() -> None:
    known = presence((5, "a", Joined()), (10, "a", Left()), (15, "a", Left()), (20, "a", Joined()))
    assert [(gap.after, gap.until) for gap in known.gaps] == [(10, 20)]


def test_decisions_go_to_rows_and_back() -> None:
    decided = [
        Decided(1, "a", Left()),
        Decided(2, "a", Joined()),
        Decided(2, "a", Forgotten()),
        Decided(3, "b", Late((LateSpan("p", 1000, 2000, 5000),))),
    ]
    assert list(from_rows(pa.Table.from_batches([as_row(one) for one in decided]))) == decided
