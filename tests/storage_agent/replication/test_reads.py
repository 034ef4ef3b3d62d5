"""Whose reads are remembered when there are more than can be."""

from storage_agent.monitoring.bodies import GetBody
from storage_agent.replication.filters import text_of
from storage_agent.replication.reads import Reads, asked_by
from tests.storage_agent.conftest import HeldClock


def test_what_is_read_often_outlasts_what_is_read_once(clock: HeldClock) -> None:
    reads = Reads(clock)
    often = asked_by(GetBody(metricID="cpu"))
    for number in range(3000):
        clock.now += 10
        reads.count("a", asked_by(GetBody(entityID=f"node-{number}")))
        if number % 100 == 0:
            reads.count("b", often)
    told = {(by, text_of(wanted)): rate for by, wanted, rate in reads.per_minute()}
    assert 900 <= len(told) <= 1000
    # 30 reads in half a minute; the last that were read once are known too.
    assert 15 < told["b", text_of(often)] < 25
    last, first = (text_of(asked_by(GetBody(entityID=f"node-{n}"))) for n in (2999, 0))
    assert ("a", last) in told
    assert ("a", first) not in told
