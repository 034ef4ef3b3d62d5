"""Deployments as immutable data: generations of amended insights."""

import msgspec

from analytics.plan.feeds import Feed
from analytics.plan.fragments import StreamLocation, Whole, fragment_from_json
from analytics_enabler.deployments.model import (
    MAX_ENDED,
    Deployment,
    DeploymentSaved,
    Event,
    event_from_json,
)
from analytics_enabler.fragments import plans_of, whole
from analytics_enabler.groups import Group
from tests.analytics_enabler.support import definitions, deployment, without_digest

ALL = Group(scope=None, scheduler="fair")
OLD = "a = COMPUTE AVG(x) EVERY 5 s; b = COMPUTE AVG(y) EVERY 5 s; c = COMPUTE AVG(z) EVERY 5 s"
NEW = (
    "b = COMPUTE mean(y, 5 s) EVERY 5 s; c = COMPUTE SUM(z) EVERY 5 s; d = COMPUTE AVG(x) EVERY 1 s"
)


def uids(deployment: Deployment) -> list[str]:
    return [without_digest(generation.uid) for generation in deployment.live]


def test_first_tick_is_after_frontier() -> None:
    for since, first in [(0, 5_000), (4_999, 5_000), (5_000, 10_000), (5_001, 10_000)]:
        (generation,) = deployment("a = COMPUTE AVG(x) EVERY 5 s", since).live
        assert generation.first_tick == first
        assert generation.insight.since == since


def test_amended_deployment_continues_unchanged_insights_and_replaces_others_at_once() -> None:
    amended = deployment(OLD, since=10).defined_by(definitions(NEW), since=99)
    assert uids(amended) == ["d-1/b/1", "d-1/c/2", "d-1/d/1"]
    assert [generation.since for generation in amended.live] == [10, 99, 99]
    ended = {without_digest(g.uid): g.until for g in amended.generations if g.until is not None}
    assert ended == {"d-1/a/1": 99, "d-1/c/1": 99}


def test_amended_accumulator_keeps_the_step_of_its_stored_states() -> None:
    text = (
        "a = COMPUTE RUNNING_COUNT(x) - AVG(x, 1 h); b = COMPUTE SUM(x) EVERY 5 POINTS; "
        "c = COMPUTE AVG(x, 1 m)"
    )
    of_earlier_version = [one.with_step(1000) for one in definitions(text)]
    earlier = deployment(OLD).defined_by(of_earlier_version, since=10)
    amended = earlier.defined_by(definitions(text), since=99)
    assert [(without_digest(one.uid), one.since, one.insight.every_ms) for one in amended.live] == [
        ("d-1/a/2", 10, 1000), ("d-1/b/2", 10, 1000), ("d-1/c/3", 99, 200),
    ]  # fmt: skip
    assert [one.insight for one in amended.live[:2]] == [one.insight for one in earlier.live[:2]]


def test_amendment_of_a_deployment_of_an_earlier_version_has_the_next_number() -> None:
    stored = deployment(OLD)
    plain = [msgspec.structs.replace(g, uid=f"d-1/{g.name}/9") for g in stored.generations]
    stored = msgspec.structs.replace(stored, generations=tuple(plain))
    amended = stored.defined_by(definitions(NEW), since=99)
    assert [each.number for each in amended.live] == [9, 10, 1]
    assert amended.live[0].uid == "d-1/b/9"


def test_earlier_version_reads_a_number_from_a_uid() -> None:
    for each in deployment(OLD).generations:
        assert int(each.uid.rpartition("/")[2]) > each.number == 1


def test_insight_that_returns_starts_new_generation() -> None:
    gone = deployment(OLD).defined_by(definitions("a = COMPUTE AVG(x) EVERY 5 s"), since=1)
    back = gone.defined_by(definitions(OLD), since=2)
    assert uids(back) == ["d-1/a/1", "d-1/b/2", "d-1/c/2"]


def test_insight_over_feed_starts_at_first_row_and_ends_at_once() -> None:
    text = "w: STREAM FROM stream(name='w'); a = COMPUTE {}(x FROM (w)) EVERY 5 s"
    first = deployment(text.format("AVG"), since=70_000)
    assert [generation.since for generation in first.live] == [0]
    amended = first.defined_by(definitions(text.format("MAX")), 90_000, lambda _: "n1")
    assert [(g.since, g.until) for g in amended.generations] == [(0, 0), (0, None)]
    assert event_from_json(
        msgspec.json.encode(DeploymentSaved(amended)).decode()
    ) == DeploymentSaved(amended)
    (group,) = {generation.group for generation in amended.live}
    assert group.feed == Feed("w")
    (fragment,) = whole(group, plans_of(amended.live)[group], "n1").values()
    assert isinstance(fragment, Whole)
    assert fragment.source == StreamLocation("n1", "w", Feed("w"))
    assert fragment_from_json(msgspec.json.encode(fragment)) == fragment


def test_ended_generation_runs_until_settled() -> None:
    amended = deployment(OLD).defined_by(definitions(NEW), since=99)
    assert len(amended.running) == 5
    assert amended.settled(lambda _: None) is amended
    settled = amended.settled(lambda _: ())
    assert settled.running == amended.live
    assert settled.settled(lambda _: ()) is settled


def test_settled_generation_names_the_sites_missing_in_its_results() -> None:
    amended = deployment(OLD).defined_by(definitions(NEW), since=99)
    settled = amended.settled(lambda _: ("edge",))
    assert {each.missing_sites for each in settled.ended} == {("edge",)}
    assert {each.missing_sites for each in settled.live} == {()}
    event = DeploymentSaved(settled)
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_ended_generations_are_bounded() -> None:
    current = deployment("a = COMPUTE AVG(x) EVERY 5 s")
    for number in range(2 * MAX_ENDED):
        function = ("SUM", "MAX")[number % 2]
        current = current.defined_by(definitions(f"a = COMPUTE {function}(x) EVERY 5 s"), number)
    assert len(current.generations) == MAX_ENDED + 1
    assert uids(current) == [f"d-1/a/{2 * MAX_ENDED + 1}"]


def test_events_survive_json_round_trip() -> None:
    event = DeploymentSaved(deployment(OLD).defined_by(definitions(NEW), since=99))
    assert msgspec.json.decode(msgspec.json.encode(event), type=Event) == event


def test_paused_deployment_ends_at_the_frontier_and_resumes_with_new_generations() -> None:
    paused = deployment(OLD, since=10).paused(1000, lambda _: 99)
    assert uids(paused) == ["d-1/a/1", "d-1/b/1", "d-1/c/1"]
    assert [(g.since, g.until, g.settled) for g in paused.live] == [(10, 99, False)] * 3
    assert (paused.paused_at, paused.ended) == (1000, ())
    assert len(paused.running) == 3
    settled = paused.settled(lambda _: ())
    assert settled.running == ()
    resumed = settled.resumed(1500, 500)
    assert uids(resumed) == ["d-1/a/2", "d-1/b/2", "d-1/c/2"]
    assert [(g.since, g.until) for g in resumed.live] == [(500, None)] * 3
    assert [(g.since, g.until, g.paused) for g in resumed.ended] == [(10, 99, False)] * 3
    assert (resumed.paused_at, resumed.updated_at, len(resumed.running)) == (None, 1500, 3)


def test_amended_paused_deployment_stays_paused() -> None:
    paused = deployment(OLD, since=10).paused(1000, lambda _: 99).settled(lambda _: ())
    amended = paused.defined_by(definitions(NEW), since=200)
    assert uids(amended) == ["d-1/b/1", "d-1/c/2", "d-1/d/1"]
    assert amended.paused_at == 1000
    assert amended.running == ()
    assert {without_digest(each.uid) for each in amended.ended} == {"d-1/a/1", "d-1/c/1"}
    assert not any(each.paused for each in amended.ended)
    assert uids(amended.resumed(1500, 300)) == ["d-1/b/2", "d-1/c/3", "d-1/d/2"]


def test_insight_over_feed_resumes_after_its_last_result() -> None:
    text = "w: STREAM FROM stream(name='w'); a = COMPUTE AVG(x FROM (w)) EVERY 5 s"
    resumed = deployment(text).paused(1000, lambda _: 70).resumed(1500, 2000)
    assert [(g.since, g.until) for g in resumed.generations] == [(0, 70), (70, None)]
    amended = (
        deployment(text)
        .paused(1000, lambda _: 70)
        .defined_by(definitions(text.replace("AVG", "MAX")), since=3000)
    )
    (generation,) = amended.resumed(1500, 4000).live
    assert generation.since == 0


def test_insight_paused_before_its_first_tick_has_no_ticks() -> None:
    paused = deployment(OLD, since=10).paused(1000, lambda _: 10)
    assert paused.running == ()
    assert [(g.since, g.until) for g in paused.live] == [(10, 10)] * 3


def test_former_generation_of_each_insight_is_retained() -> None:
    many = "; ".join(f"a{n} = COMPUTE AVG(x, {n + 1} s) EVERY 5 s" for n in range(2 * MAX_ENDED))
    resumed = deployment(many, since=1).paused(1000, lambda _: 99).resumed(1500, 500)
    assert len(resumed.ended) == len(resumed.live) == 2 * MAX_ENDED
    again = resumed.paused(2000, lambda _: 600).resumed(2500, 700)
    assert {each.number for each in again.ended} == {2}


def test_deployment_of_an_earlier_version_is_not_paused() -> None:
    stored = msgspec.json.decode(msgspec.json.encode(DeploymentSaved(deployment(OLD))))
    del stored["deployment"]["paused_at"]
    for generation in stored["deployment"]["generations"]:
        del generation["paused"]
    event = event_from_json(msgspec.json.encode(stored).decode())
    assert event == DeploymentSaved(deployment(OLD))
