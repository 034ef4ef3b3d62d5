"""Schedulers of another package, installed by pip: used, and survived."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psutil
import pytest

from mistbow.errors import InvalidRequestError
from mistbow.fog.jobs import Placement
from mistbow.fog.snapshot import Fog
from mistbow.schedulers import process
from mistbow.schedulers.guard import Outcome, decide
from mistbow.schedulers.registry import load, names
from tests.schedulers import build
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("third_party")
# On a busy machine a process may take seconds to start.
LIMIT_S = 60.0

GOOD = {"q_at-edge1": "edge1", "q_at-edge2": "edge2", "q_merge": "cloud1"}


def nodes(outcome: Outcome) -> dict[str, str]:
    return {f"{at.job}_{at.task}": at.node for at in outcome.decision.placement.assignments}


def ask(scheduler: str, settings: Mapping[str, str], limit_s: float = LIMIT_S) -> Outcome:
    """Place a job that runs well by a scheduler that may do anything."""
    job = build.over_sites("q", scheduler=scheduler)
    return decide([job], build.city(), build.placed(**GOOD), {scheduler: settings}, limit_s)


def test_names_are_of_all_packages() -> None:
    assert {"fair", "latency", "roomiest"} <= set(names())
    with pytest.raises(InvalidRequestError, match=r"no scheduler 'best'; there are: .*fair, .*roo"):
        load("best")


def test_another_packages_scheduler_places_its_jobs_and_no_others() -> None:
    jobs = [
        build.job("f", build.task("t", labels={"node": "cloud2"}), scheduler="fair"),
        build.job("l", build.task("t"), sink="edge1", scheduler="latency"),
        build.job("r", build.task("t"), scheduler="roomiest"),
    ]
    outcome = decide(jobs, build.city(), Placement(), limit_s=LIMIT_S)
    assert outcome.problems == {}
    # Of the two nodes in the cloud, what ``fair`` has given away is not free any more.
    assert nodes(outcome) == {"f_t": "cloud2", "l_t": "edge1", "r_t": "cloud1"}


def test_settings_reach_their_scheduler() -> None:
    job = build.job("r", build.task("t"), scheduler="roomiest")
    settings = {"roomiest": {"prefer": "edge1"}}
    outcome = decide([job], build.city(), Placement(), settings, LIMIT_S)
    assert nodes(outcome) == {"r_t": "edge1"}


@pytest.mark.parametrize(
    ("scheduler", "settings", "problem"),
    [
        ("raising", {}, "ValueError: the stars stand badly"),
        ("dying", {}, "its process died of signal 9"),
        ("silent", {}, "it returned no decision: Input data was truncated"),
        ("absurd", {}, "it returned no decision: Expected `object`, got `null`"),
        ("roomiest", {"prefer": "moon"}, "not possible: q/at-edge1 on moon: there is no such node"),
        ("roomiest", {}, "q/at-edge1 on cloud2: its data is at edge1 (and 1 more)"),
        ("latency", {"margin": "wide"}, "margin must be from 0 to 1, not 'wide'"),
        ("unheard-of", {}, "no scheduler 'unheard-of'; there are: "),
    ],
)
def test_a_failing_scheduler_leaves_the_last_placement(
    scheduler: str, settings: Mapping[str, str], problem: str
) -> None:
    outcome = ask(scheduler, settings)
    assert nodes(outcome) == GOOD
    assert problem in outcome.problems[scheduler]


def test_a_hanging_scheduler_is_ended_with_all_it_started(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    outcome = ask("hanging", {"note": str(note)}, limit_s=10.0)
    assert nodes(outcome) == GOOD
    assert outcome.problems == {"hanging": "no answer within 10 s"}
    pids = [int(pid) for pid in note.read_text().split()]
    eventually(lambda: not any(map(_runs, pids)), what="both processes are gone")


def test_a_hanging_scheduler_ends_without_a_parent_too() -> None:
    question = process.Question({}, (), build.city(), Placement())
    argv = [sys.executable, "-m", process.__name__, "endless", "1"]
    done = subprocess.run(argv, input=msgspec.json.encode(question), timeout=LIMIT_S)
    assert done.returncode == -signal.SIGALRM


def _runs(pid: int) -> bool:
    # Nobody waits for an orphan in a container without an init: then it stays as a zombie.
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_what_ran_on_a_lost_node_does_not_stay() -> None:
    city = build.city()
    smaller = Fog(tuple(node for node in city.nodes if node.name != "edge2"), city.links)
    jobs = [build.over_sites("q", scheduler="raising"), build.over_sites("r", scheduler="fair")]
    outcome = decide(jobs, smaller, build.placed(**GOOD), limit_s=LIMIT_S)
    assert {k: v for k, v in nodes(outcome).items() if k[0] == "q"} == {
        key: node for key, node in GOOD.items() if node != "edge2"
    }
    assert nodes(outcome)["r_at-edge1"] == "edge1"
    (refusal,) = [r for r in outcome.decision.refusals if r.job == "q"]
    assert (refusal.task, refusal.node) == ("at-edge2", None)
    assert "the stars stand badly" in refusal.reason


def test_what_a_failing_schedulers_jobs_hold_is_not_given_away() -> None:
    one = build.fog(build.node("n", "cloud", cores=1))
    jobs = [
        build.job("q", build.task("t"), scheduler="raising"),
        build.job("r", build.task("t"), scheduler="fair"),
    ]
    outcome = decide(jobs, one, build.placed(q_t="n"), limit_s=LIMIT_S)
    assert nodes(outcome) == {"q_t": "n"}


def test_a_scheduler_is_not_given_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTBOW_TOKEN", "secret")
    monkeypatch.setenv("MISTBOW_TOKEN_FILE", "/run/secrets/token")
    assert ask("gone", {}).problems == {"gone": "LookupError: found []"}


def test_what_is_decided_is_json_both_ways() -> None:
    outcome = decide([build.over_sites("q")], build.city(), Placement(), limit_s=LIMIT_S)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome


def test_a_resting_scheduler_is_not_asked() -> None:
    job = build.over_sites("q", scheduler="endless")
    outcome = decide(
        [job], build.city(), build.placed(**GOOD), limit_s=LIMIT_S, resting={"endless": "it hung"}
    )
    assert nodes(outcome) == GOOD
    assert outcome.problems == {"endless": "it hung"}
