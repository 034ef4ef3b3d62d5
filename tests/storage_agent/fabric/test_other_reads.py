"""SQL, pages of rows and events of another site, by way of this one's agent."""

import threading

import pyarrow as pa

from mistbow.client.agent import Point
from mistbow.clock import system_clock
from tests.support.sites import Place, knows
from tests.support.waiting import eventually


def test_what_another_site_has(places: list[Place]) -> None:
    a, b, _ = places
    with b.agent() as at_b, a.agent(b) as at_a:
        knows(at_a, "b")
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
        eventually(lambda: seen == [("b", 2)], what="what there is came")
        at_b.append("s", pa.table({"word": ["c"]}))
        following.join(30)
        assert seen == [("b", 2), ("c", 3)]
