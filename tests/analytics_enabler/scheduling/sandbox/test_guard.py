"""Schedulers of another package, installed by pip: valid schedulers, and schedulers that fail."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psutil
import pytest

from analytics_enabler.scheduling.model.jobs import Placement
from analytics_enabler.scheduling.model.snapshot import Fog
from analytics_enabler.scheduling.registry import load_scheduler, scheduler_names
from analytics_enabler.scheduling.sandbox import child
from analytics_enabler.scheduling.sandbox.guard import Outcome, decide
from analytics_enabler.scheduling.sandbox.processes import PROCESSES
from mistbow.errors import InvalidRequestError
from tests.analytics_enabler.scheduling import build
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("third_party")
# On a busy machine a process may take seconds to start.
LIMIT_S = 60.0

GOOD = {"q_at-edge1": "edge1", "q_at-edge2": "edge2", "q_merge": "cloud1"}


def nodes(outcome: Outcome) -> dict[str, str]:
    return {f"{at.job}_{at.task}": at.node for at in outcome.decision.placement.assignments}


def ask(scheduler: str, settings: Mapping[str, str], limit_s: float = LIMIT_S) -> Outcome:
    """Let a scheduler of another package place a job that is already running.

    Return the outcome.
    """
    job = build.over_sites("q", scheduler=scheduler)
    return decide([job], build.city(), build.placed(**GOOD), {scheduler: settings}, limit_s)


def test_scheduler_names_include_third_party() -> None:
    assert {"fair", "latency", "roomiest"} <= set(scheduler_names())
    with pytest.raises(InvalidRequestError, match=r"no scheduler 'best'; installed: .*fair, .*roo"):
        load_scheduler("best")


def test_third_party_scheduler_places_only_its_jobs() -> None:
    jobs = [
        build.job("f", build.task("t", labels={"node": "cloud2"}), scheduler="fair"),
        build.job("l", build.task("t"), sink="edge1", scheduler="latency"),
        build.job("r", build.task("t"), scheduler="roomiest"),
    ]
    outcome = decide(jobs, build.city(), Placement(), limit_s=LIMIT_S)
    assert outcome.problems == {}
    # The capacity that ``fair`` allocated on a node of the cloud is not free any more.
    assert nodes(outcome) == {"f_t": "cloud2", "l_t": "edge1", "r_t": "cloud1"}


def test_scheduler_receives_its_settings() -> None:
    job = build.job("r", build.task("t"), scheduler="roomiest")
    settings = {"roomiest": {"prefer": "edge1"}}
    outcome = decide([job], build.city(), Placement(), settings, LIMIT_S)
    assert nodes(outcome) == {"r_t": "edge1"}


@pytest.mark.parametrize(
    ("scheduler", "settings", "problem"),
    [
        ("raising", {}, "ValueError: the stars stand badly"),
        ("dying", {}, "signal 9 ended the process"),
        ("silent", {}, "the process exited with code 0"),
        ("absurd", {}, "the scheduler returned no decision: Expected `object`, got `null`"),
        (
            "roomiest",
            {"prefer": "moon"},
            "invalid placement: q/at-edge1 on moon: there is no such node",
        ),
        ("roomiest", {}, "q/at-edge1 on cloud2: the task's data is at edge1 (and 1 more)"),
        ("latency", {"margin": "wide"}, "margin: Expected `float`, got `str` (got 'wide')"),
        ("unheard-of", {}, "there is no scheduler 'unheard-of'; installed: "),
    ],
)
def test_failing_scheduler_leaves_last_placement(
    scheduler: str, settings: Mapping[str, str], problem: str
) -> None:
    outcome = ask(scheduler, settings)
    assert nodes(outcome) == GOOD
    assert problem in outcome.problems[scheduler]


def test_hanging_scheduler_is_killed_with_its_children(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    outcome = ask("hanging", {"note": str(note)}, limit_s=10.0)
    assert nodes(outcome) == GOOD
    assert outcome.problems == {"hanging": "no answer within 10 s"}
    pids = [int(pid) for pid in note.read_text().split()]
    eventually(lambda: not any(map(_runs, pids)), what="both processes are gone")


def test_hanging_scheduler_ends_without_parent() -> None:
    question = msgspec.json.encode(child.SchedulingRequest({}, (), build.city(), Placement()))
    argv = [sys.executable, "-m", child.__name__, "endless"]
    message = child.REQUEST_HEADER.pack(len(question), 1) + question
    done = subprocess.run(argv, input=message, timeout=LIMIT_S)
    assert done.returncode == -signal.SIGALRM


def _runs(pid: int) -> bool:
    # In a container without an init no process reaps an orphan, so it stays a zombie.
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_failing_scheduler_retains_nothing_on_lost_node() -> None:
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


def test_capacity_of_jobs_of_failing_scheduler_is_not_free() -> None:
    one = build.fog(build.node("n", "cloud", cores=1))
    jobs = [
        build.job("q", build.task("t"), scheduler="raising"),
        build.job("r", build.task("t"), scheduler="fair"),
    ]
    outcome = decide(jobs, one, build.placed(q_t="n"), limit_s=LIMIT_S)
    assert nodes(outcome) == {"q_t": "n"}


def test_scheduler_environment_has_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTBOW_TOKEN", "secret")
    monkeypatch.setenv("MISTBOW_TOKEN_FILE", "/run/secrets/token")
    assert ask("gone", {}).problems == {"gone": "LookupError: found []"}


def test_outcome_survives_json_round_trip() -> None:
    outcome = decide([build.over_sites("q")], build.city(), Placement(), limit_s=LIMIT_S)
    assert msgspec.json.decode(msgspec.json.encode(outcome), type=Outcome) == outcome


def test_suspended_request_is_not_sent() -> None:
    job = build.over_sites("q", scheduler="endless")
    outcome = decide(
        [job], build.city(), build.placed(**GOOD), limit_s=LIMIT_S, suspended={"endless": "it hung"}
    )
    assert nodes(outcome) == GOOD
    assert outcome.problems == {"endless": "it hung"}


def test_process_of_scheduler_stays_for_later_calls() -> None:
    job = build.job("r", build.task("t"), scheduler="roomiest")
    decide([job], build.city(), Placement(), limit_s=LIMIT_S)
    pid = PROCESSES.pid("roomiest")
    assert pid is not None
    # A new scheduler answers each call, with the settings of this call only.
    settings = {"roomiest": {"prefer": "edge1"}}
    assert nodes(decide([job], build.city(), Placement(), settings, LIMIT_S)) == {"r_t": "edge1"}
    assert nodes(decide([job], build.city(), Placement(), {}, LIMIT_S)) == {"r_t": "cloud2"}
    assert PROCESSES.pid("roomiest") == pid


def test_start_of_process_is_not_time_of_call() -> None:
    # The module of the scheduler takes 3 s to load.
    job = build.job("r", build.task("t"), scheduler="slow")
    outcome = decide([job], build.city(), Placement(), limit_s=2.5)
    assert (outcome.problems, nodes(outcome)) == ({}, {"r_t": "cloud2"})


def test_process_is_replaced_after_its_death() -> None:
    job = build.job("r", build.task("t"), scheduler="roomiest")
    decide([job], build.city(), Placement(), limit_s=LIMIT_S)
    killed = PROCESSES.pid("roomiest")
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    # A process is a zombie before its last threads have ended; only then does it count as ended.
    ended = os.WEXITED | os.WNOWAIT | os.WNOHANG
    eventually(lambda: os.waitid(os.P_PID, killed, ended), what="the process has ended")
    outcome = decide([job], build.city(), Placement(), limit_s=LIMIT_S)
    assert (outcome.problems, nodes(outcome)) == ({}, {"r_t": "cloud2"})
    assert PROCESSES.pid("roomiest") != killed
