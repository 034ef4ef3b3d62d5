"""Reads of another site through this site's agent: SQL, pages of rows, and events of a stream."""

import threading

import pyarrow as pa

from mistbow.client import Point
from mistbow.clock import system_clock
from tests.support.conditions import eventually
from tests.support.sites import AgentSite, wait_until_reached


def test_reads_of_another_site_return_its_data(places: list[AgentSite]) -> None:
    a, b, _ = places
    with b.agent() as at_b, a.agent(b) as at_a:
        wait_until_reached(at_a, "b")
        there = at_a.at("b")
        at_b.put([Point("cpu", "x", system_clock(), 7.0)])
        query = "SELECT metric, entity, value FROM historical WHERE entity = ?"
        assert there.sql(query, ["x"]).to_pylist() == [
            {"metric": "cpu", "entity": "x", "value": 7.0}
        ]
        assert at_a.sql(query, ["x"]).num_rows == 0

        at_b.create_stream("s", pa.schema([("word", pa.string())]))
        at_b.append("s", pa.table({"word": ["a", "b"]}))
        assert there.rows("s", 1).rows == [{"word": "b"}]
        seen: list[tuple[str, int | None]] = []

        def follow() -> None:
            for event in there.events("s", 1):
                seen.append((event.row["word"], event.next))
                if event.row["word"] == "c":
                    return

        following = threading.Thread(target=follow)
        following.start()
        eventually(lambda: seen == [("b", 2)], what="the stored rows have arrived")
        at_b.append("s", pa.table({"word": ["c"]}))
        following.join(30)
        assert seen == [("b", 2), ("c", 3)]
