"""The outages that stop or delay insights, with their beginnings, reasons and next steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analytics.plan.status import FragmentStatus
from analytics_enabler.deployments.move import RETRY_MS, DomainAbsence, Move
from mistbow.clock import time_words
from mistbow.errors import FencedError, MistbowError, UnavailableError
from mistbow.fabric import FragmentLimit, Worker

_TRACEBACK = "Traceback (most recent call last):"
_NO_REASON = "no reason was reported"


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage; ``since``: its beginning (ms), as far as this enabler has observed it.

    >>> print(Outage("the disk is full", 1795262400000, "no space left", "Writes are retried"))
    the disk is full since 2026-11-21T12:00:00Z: no space left. Writes are retried.
    """

    what: str
    since: int | None
    why: str | None
    next: str

    def __str__(self) -> str:
        since = "" if self.since is None else f" since {time_words(self.since)}"
        return f"{self.what}{since}: {one_line(self.why)}. {self.next}."


def in_order(outages: Iterable[Outage]) -> list[Outage]:
    """Return outages in the order in which they began, because a later one may be a consequence."""
    return sorted(
        set(outages), key=lambda each: (each.since is None, each.since or 0, each.what, each.next)
    )


def one_line(reason: str | None) -> str:
    """Return the first line of a reason without the period at its end.

    >>> one_line("it is away.\\nmore"), one_line(None), one_line(f"failed: {_TRACEBACK}")
    ('it is away', 'no reason was reported', 'failed')
    """
    line = (reason or "").strip().partition("\n")[0].removesuffix(_TRACEBACK)
    return line.strip().rstrip(".:") or _NO_REASON


def describe_error(error: Exception) -> str:
    """Return the reason that an error gives, in one line.

    >>> describe_error(ValueError("x")), describe_error(TimeoutError())
    ('ValueError: x', 'TimeoutError')
    """
    if isinstance(error, MistbowError):
        return one_line(error.message)
    return one_line(f"{type(error).__name__}: {error}")


def unreachable_site(site: str, since: int | None, own_site: str, consequence: str) -> Outage:
    """Return the outage of a site that is cut off from the enabler's site."""
    what, why = f"the site {site} is unreachable", f"its agent does not answer the site {own_site}"
    return Outage(what, since, why, consequence)


def site_without_worker(
    site: str, since: int | None, former: Sequence[str], others: Sequence[str] = ()
) -> Outage:
    """Return the outage of a reachable site without a worker, whose points no worker reads.

    ``former``: its last workers. ``others``: why workers at other sites do not read its points.
    """
    why = "no worker has announced itself there"
    if former:
        why = f"its worker{'s' if former[1:] else ''} {' and '.join(former)} sent no announcement"
    if others:
        why += f", and no worker elsewhere reads its points: {'; '.join(map(one_line, others))}"
    return Outage(
        f"the site {site} has no worker",
        since,
        why,
        "The enabler uses a worker there as soon as it announces itself: start `mistbow worker`",
    )


def unplaced_task(group: str, task: str, since: int | None, reasons: Sequence[str]) -> Outage:
    """Return the outage of a task that no worker can run, because of ``reasons``."""
    return Outage(
        f"no worker can run the fragment {task} of {group}",
        since,
        "; ".join(map(one_line, reasons)),
        "The enabler places it as soon as a worker can run it: add such a worker, or change the "
        "options of the insight",
    )


def late_panes(site: str, since: int | None) -> Outage:
    """Return the outage of a site whose partial fragment is placed, but sends no panes in time."""
    return Outage(
        f"the panes of the site {site} are late",
        since,
        "its worker starts or lags, or the link to it is slow",
        "Results lack its points, and are corrected when the panes arrive",
    )


def lost_worker(name: str, since: int | None) -> Outage:
    """Return the outage of a worker that has left the fabric, until its fragments are moved."""
    return Outage(
        f"the worker {name} is lost",
        since,
        "it sends no announcements, or its site is unreachable",
        "The enabler places its fragments on another worker, or on this worker when it returns",
    )


def silent_worker(worker: Worker, since: int | None, error: Exception) -> Outage:
    """Return the outage of a worker that does not answer the enabler."""
    return Outage(
        f"the worker {worker.name} at {worker.url} does not answer the enabler",
        since,
        describe_error(error),
        "The enabler retries every 0.5 s, and moves fragments that another worker can run",
    )


def suspected_worker(worker: Worker, since: int) -> Outage:
    """Return the outage of a worker that has been silent for longer than usual, but is not dead."""
    return Outage(
        f"the worker {worker.name} at {worker.url} does not answer the enabler",
        since,
        "it is slow, paused or cut off",
        "Its fragments stay there, and the enabler moves them to other workers if it stays silent",
    )


def refusing_worker(worker: Worker, since: int | None, error: Exception) -> Outage:
    """Return the outage of a worker that answers, but with an error."""
    return Outage(
        f"the worker {worker.name} at {worker.url} does not run the fragments of the enabler",
        since,
        describe_error(error),
        "The enabler retries every 0.5 s",
    )


def full_worker(worker: Worker, since: int | None, error: Exception) -> Outage:
    """Return the outage of a worker that has too little memory for a fragment placed on it."""
    return Outage(
        f"the worker {worker.name} at {worker.url} is full",
        since,
        describe_error(error),
        "Its other fragments continue. The enabler places this fragment elsewhere, or here when "
        "there is memory: give the worker more memory, remove insights, or add a worker",
    )


def killed_worker(name: str, limit: FragmentLimit) -> Outage:
    """Return the outage of a worker that was killed for lack of memory."""
    return Outage(
        f"the worker {name} runs at most {limit.fragments} fragments",
        limit.killed_at,
        f"the kernel killed it for lack of memory while it ran {limit.ran}",
        f"The worker accepts one more at {time_words(limit.until)}: give it more memory, remove "
        "insights, or add a worker",
    )


def failed_fragment(worker: str, status: FragmentStatus) -> Outage:
    """Return the outage of a fragment whose last query failed, or is fenced."""
    where = f"{status.id} on the worker {worker}"
    if status.state == "fenced":
        what, consequence = f"the fragment {where} is fenced", "The enabler starts it again"
    elif status.active not in (None, status.fingerprint):
        what = f"the new version of the fragment {where} fails"
        consequence = "The former version continues, and the worker retries within 8 s"
    else:
        what = f"the fragment {where} fails"
        consequence = (
            "The worker starts it again within 8 s, and then computes the results since the failure"
        )
    return Outage(what, status.error_since, status.error, consequence)


def overloaded_fragment(worker: str, status: FragmentStatus) -> Outage | None:
    """Return the outage of a fragment that is shed or lags; None: no outage."""
    where = f"{status.id} on the worker {worker}"
    if status.shed_since is not None:
        return Outage(
            f"the fragment {where} is paused",
            status.shed_since,
            "the worker is overloaded",
            "It resumes when the worker has capacity, and then computes the missing results",
        )
    if status.lagging_since is None:
        return None
    return Outage(
        f"the results of the fragment {where} are late",
        status.lagging_since,
        f"the worker is overloaded, and lags by {status.lag_ms / 1000:.0f} s",
        "The worker catches up, or pauses insights of low salience",
    )


def failed_scheduler(request: str, since: int | None, problem: str) -> Outage:
    """Return the outage of a scheduler that made no valid decision."""
    return Outage(
        f"the scheduler {request} fails",
        since,
        problem,
        "Running fragments stay where they are, and the enabler calls the scheduler again when "
        "insights or workers change, and after 60 s",
    )


def pending_move(move: Move) -> Outage:
    """Return the outage of a deployment that a larger domain has not taken over yet."""
    if move.absence is not None:
        return _absent_domain(move.domain, move.absence)
    if move.refusal is None:
        return Outage(
            f"the deployment moves to the domain {move.domain}",
            move.at,
            "the enabler of this domain has not accepted it yet",
            "The present domain retries every 5 s",
        )
    return Outage(
        f"the domain {move.domain} does not take over the deployment",
        move.refusal.at,
        move.refusal.why,
        "The move is tried again when the deployment is amended, when the enabler of that domain "
        f"has been restarted or unreachable, and every {RETRY_MS // 60_000} min",
    )


def _absent_domain(domain: str, absence: DomainAbsence) -> Outage:
    return Outage(
        f"no enabler of the domain {domain}, to which the deployment moves, is reachable",
        absence.since,
        "its site is unreachable"
        if absence.is_announced
        else "no site of the fabric announces this domain",
        f"Start an enabler of the domain {domain} at a reachable site; otherwise the move is "
        f"abandoned at {time_words(absence.ends_at)}, and the deployment stays in its domain",
    )


def failed_reconciliation(since: int | None, error: Exception) -> Outage:
    """Return the outage of the enabler itself, whose last reconciliation failed."""
    match error:
        case FencedError():
            what = "another enabler has taken over this site"
            consequence = "This one takes over again when the other one has ended"
        case UnavailableError():
            what = "the enabler cannot use the storage agent of its site"
            consequence = "Workers continue with their fragments, and the enabler tries again"
        case _:
            what = "the enabler cannot plan and place insights"
            consequence = "Workers continue with their fragments, and the enabler tries again"
    return Outage(what, since, describe_error(error), consequence)
