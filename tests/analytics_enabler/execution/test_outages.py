"""The texts of outages: what is missing, since when, why, and what comes next."""

import pytest

from analytics.plan.status import FragmentStatus
from analytics_enabler.execution import outages
from analytics_enabler.execution.lifecycle import State, StateReport
from analytics_enabler.execution.outages import Outage, in_order
from analytics_enabler.execution.reports import DeploymentReport, InsightReport
from mistbow.errors import CapacityError, FencedError, UnavailableError
from mistbow.fabric import FragmentLimit, Worker

SINCE = 1795262400000
AT = "since 2026-11-21T12:00:00Z"
AWAY = UnavailableError("http://edge:8100 does not answer: Connection refused")
WORKER = Worker(
    name="edge-a", url="http://edge:8100", cores=1, memory_mb=1, cores_free=1, memory_free_mb=1
)


def status(**fields: object) -> FragmentStatus:
    given = {"state": "failed", "error": "no memory", "error_since": SINCE, **fields}
    return FragmentStatus(id="all.fair", fingerprint="f", frontier=0, **given)  # type: ignore[arg-type]


GOLDEN = [
    (
        outages.unreachable_site("edge", SINCE, "cloud", "Its insights start when it is back"),
        f"the site edge is unreachable {AT}: its agent does not answer the site cloud. "
        "Its insights start when it is back.",
    ),
    (
        outages.site_without_worker("edge", SINCE, ()),
        f"the site edge has no worker {AT}: no worker has announced itself there. The enabler uses "
        "a worker there as soon as it announces itself: start `mistbow worker`.",
    ),
    (
        outages.site_without_worker("edge", SINCE, ("edge-a", "edge-b")),
        f"the site edge has no worker {AT}: its workers edge-a and edge-b sent no announcement. "
        "The enabler uses a worker there as soon as it announces itself: start `mistbow worker`.",
    ),
    (
        outages.site_without_worker("edge", SINCE, (), ["w1: no memory.", "w2: no cores"]),
        f"the site edge has no worker {AT}: no worker has announced itself there, and no worker "
        "elsewhere reads its points: w1: no memory; w2: no cores. The enabler uses a worker there "
        "as soon as it announces itself: start `mistbow worker`.",
    ),
    (
        outages.unplaced_task("all.fair", "merge", SINCE, ["a: no memory.", "b: no cores"]),
        f"no worker can run the fragment merge of all.fair {AT}: a: no memory; b: no cores. The "
        "enabler places it as soon as a worker can run it: add such a worker, or change the "
        "options of the insight.",
    ),
    (
        outages.late_panes("edge", SINCE),
        f"the panes of the site edge are late {AT}: its worker starts or lags, or the link to it "
        "is slow. Results lack its points, and are corrected when the panes arrive.",
    ),
    (
        outages.lost_worker("edge-a", SINCE),
        f"the worker edge-a is lost {AT}: it sends no announcements, or its site is unreachable. "
        "The enabler places its fragments on another worker, or on this worker when it returns.",
    ),
    (
        outages.silent_worker(WORKER, SINCE, AWAY),
        f"the worker edge-a at http://edge:8100 does not answer the enabler {AT}: http://edge:8100 "
        "does not answer: Connection refused. The enabler retries every 0.5 s, and moves "
        "fragments that another worker can run.",
    ),
    (
        outages.refusing_worker(WORKER, SINCE, TimeoutError()),
        "the worker edge-a at http://edge:8100 does not run the fragments of the enabler "
        f"{AT}: TimeoutError. The enabler retries every 0.5 s.",
    ),
    (
        outages.full_worker(
            WORKER,
            SINCE,
            CapacityError("the fragment q needs 180 MB of memory, and 40 MB of 1900 MB is free"),
        ),
        f"the worker edge-a at http://edge:8100 is full {AT}: the fragment q needs 180 MB of "
        "memory, and 40 MB of 1900 MB is free. Its other fragments continue. The enabler places "
        "this fragment elsewhere, or here when there is memory: give the worker more memory, "
        "remove insights, or add a worker.",
    ),
    (
        outages.killed_worker(
            "edge-a", FragmentLimit(fragments=6, killed_at=SINCE, ran=7, until=SINCE + 300_000)
        ),
        f"the worker edge-a runs at most 6 fragments {AT}: the kernel killed it for lack of memory "
        "while it ran 7. The worker accepts one more at 2026-11-21T12:05:00Z: give it more memory, "
        "remove insights, or add a worker.",
    ),
    (
        outages.failed_fragment("edge-a", status()),
        f"the fragment all.fair on the worker edge-a fails {AT}: no memory. The worker starts it "
        "again within 8 s, and then computes the results since the failure.",
    ),
    (
        outages.failed_fragment("edge-a", status(error=None, error_since=None)),
        "the fragment all.fair on the worker edge-a fails: no reason was reported. The worker "
        "starts it again within 8 s, and then computes the results since the failure.",
    ),
    (
        outages.failed_fragment("edge-a", status(active="former")),
        f"the new version of the fragment all.fair on the worker edge-a fails {AT}: no memory. The "
        "former version continues, and the worker retries within 8 s.",
    ),
    (
        outages.failed_fragment("edge-a", status(state="fenced", error="epoch 2 owns the stream")),
        f"the fragment all.fair on the worker edge-a is fenced {AT}: epoch 2 owns the stream. The "
        "enabler starts it again.",
    ),
    (
        outages.overloaded_fragment("edge-a", status(shed_since=SINCE)),
        f"the fragment all.fair on the worker edge-a is paused {AT}: the worker is overloaded. "
        "It resumes when the worker has capacity, and then computes the missing results.",
    ),
    (
        outages.overloaded_fragment("edge-a", status(lagging_since=SINCE, lag_ms=12_400)),
        f"the results of the fragment all.fair on the worker edge-a are late {AT}: the worker is "
        "overloaded, and lags by 12 s. The worker catches up, or pauses insights of low "
        "salience.",
    ),
    (
        outages.failed_scheduler("fair", SINCE, "no answer within 5 s"),
        f"the scheduler fair fails {AT}: no answer within 5 s. Running fragments stay where they "
        "are, and the enabler calls the scheduler again when insights or workers change, and after "
        "60 s.",
    ),
    (
        outages.failed_reconciliation(SINCE, AWAY),
        f"the enabler cannot use the storage agent of its site {AT}: http://edge:8100 does not "
        "answer: Connection refused. Workers continue with their fragments, and the enabler tries "
        "again.",
    ),
    (
        outages.failed_reconciliation(SINCE, FencedError("epoch 2 owns the stream")),
        f"another enabler has taken over this site {AT}: epoch 2 owns the stream. This one takes "
        "over again when the other one has ended.",
    ),
    (
        outages.failed_reconciliation(SINCE, ValueError()),
        f"the enabler cannot plan and place insights {AT}: ValueError. Workers continue with their "
        "fragments, and the enabler tries again.",
    ),
]


@pytest.mark.parametrize(("outage", "text"), GOLDEN)
def test_outage_has_what_since_why_and_next(outage: Outage, text: str) -> None:
    assert str(outage) == text


@pytest.mark.parametrize(
    "reason",
    [None, "", "Traceback (most recent call last):", "x: Traceback (most recent call last):"],
)
def test_outage_of_an_older_worker_ends_neither_in_none_nor_in_a_traceback(
    reason: str | None,
) -> None:
    text = str(outages.failed_fragment("w", status(error=reason)))
    assert "None" not in text
    assert "Traceback" not in text


def test_error_begins_with_the_first_outage_and_is_bounded() -> None:
    given = [Outage(f"outage {since}", since, "why", "Next") for since in (5, 3, 4, 2)]
    given.append(Outage("outage without a time", None, "why", "Next"))
    report = InsightReport(StateReport(State.PLACING), tuple(in_order(given)), ("q: gap",))
    for error in (report.error, DeploymentReport({"q": report, "r": report}).error):
        assert error is not None
        assert error.startswith("outage 2 since 1970-01-01T00:00:00Z: why. Next. outage 3 since ")
    assert report.error is not None
    assert report.error.endswith("(3 more)")


def test_error_without_outages_is_none() -> None:
    assert InsightReport(StateReport(State.RUNNING), (), ()).error is None
    assert InsightReport(StateReport(State.RUNNING), (), ("q: gap",)).error == "q: gap"
