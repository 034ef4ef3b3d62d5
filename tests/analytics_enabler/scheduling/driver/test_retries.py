"""The pauses between the attempts of a failing scheduling request."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from analytics_enabler.scheduling.driver.retries import LOSS_MS, RETRY_MS, FailedRequests
from analytics_enabler.scheduling.model.jobs import Job, Placement, TaskStream
from analytics_enabler.scheduling.model.snapshot import Fog
from tests.analytics_enabler.scheduling import build

JOBS = [build.job("q", build.task("t"), build.task("u"))]
COMPLETE = build.fog(build.node("a"), build.node("b"))
WITHOUT_A = build.fog(build.node("b"))
ON_A = build.placed(q_t="a", q_u="b")
LOST = build.placed(q_u="b")
NAME = JOBS[0].request_name


def attempts(
    until: int,
    fog_at: Callable[[int], Fog],
    current: Callable[[int], Placement],
    jobs_at: Callable[[int], Sequence[Job]] = lambda _: JOBS,
) -> list[int]:
    """Return the times (ms) at which a request that always fails is sent, of each half second."""
    failed = FailedRequests()
    times = []
    for now in range(0, until, 500):
        fog, before, jobs = fog_at(now), current(now), jobs_at(now)
        suspended = failed.suspended(jobs, fog, before, now)
        if NAME not in suspended:
            times.append(now)
        failed.record({NAME: "it hangs"}, suspended, jobs, fog, before, now)
        assert failed.problems == {NAME: "it hangs"}
    return times


def test_pause_doubles_while_no_node_is_lost() -> None:
    times = attempts(20_000, lambda _: COMPLETE, lambda _: ON_A)
    assert times == [each * RETRY_MS for each in (0, 1, 3, 7)]
    # A task without a node has not lost one.
    assert attempts(20_000, lambda _: COMPLETE, lambda _: LOST) == times


def test_pause_doubles_although_estimates_change_but_not_when_a_job_changes() -> None:
    def estimated(now: int) -> list[Job]:
        tasks = [
            build.task(name, cores=1 + now, memory_mb=1 + now, points_per_s=now, check_core_s=now)
            for name in ("t", "u")
        ]
        stream = TaskStream(source="t", target="u", bytes_per_s=now)
        return [replace(build.job("q", *tasks), streams=(stream,))]

    def amended(now: int) -> list[Job]:
        return [replace(each, sink="edge" if now >= 10_000 else "cloud") for each in estimated(now)]

    times = [each * RETRY_MS for each in (0, 1, 3, 7)]
    assert attempts(20_000, lambda _: COMPLETE, lambda _: ON_A, estimated) == times
    times = [*times[:3], 10_000, 12_000, 16_000]
    assert attempts(20_000, lambda _: COMPLETE, lambda _: ON_A, amended) == times


def test_pause_doubles_although_a_moved_job_may_move_again() -> None:
    def moved(now: int) -> list[Job]:
        return [replace(JOBS[0], stays=now < 10_000)]

    times = [each * RETRY_MS for each in (0, 1, 3, 7)]
    assert attempts(20_000, lambda _: COMPLETE, lambda _: ON_A, moved) == times


def test_request_of_a_lost_node_is_sent_at_once_and_often_for_a_minute() -> None:
    lost_at = 20_000
    times = attempts(
        lost_at + LOSS_MS + 20_000,
        lambda now: COMPLETE if now < lost_at else WITHOUT_A,
        # The former assignment ends with the first decision after the loss.
        lambda now: ON_A if now <= lost_at else LOST,
    )
    after = [now - lost_at for now in times if now >= lost_at]
    often = list(range(0, LOSS_MS + 1, RETRY_MS))
    assert after == [*often, LOSS_MS + 2 * RETRY_MS, LOSS_MS + 6 * RETRY_MS]


def test_assignment_that_remains_at_a_lost_node_counts_as_one_loss() -> None:
    times = attempts(10_000, lambda now: COMPLETE if now < 5000 else WITHOUT_A, lambda _: ON_A)
    assert times == [0, 2000, 5000, 7000, 9000]


def test_loss_ends_when_the_task_has_a_node_again() -> None:
    times = attempts(
        30_000,
        lambda now: WITHOUT_A if 5000 <= now < 8000 else COMPLETE,
        lambda now: LOST if 5000 < now < 8000 else ON_A,
    )
    assert times == [0, 2000, 5000, 7000, 9000, 13_000, 21_000]
