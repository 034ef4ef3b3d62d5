"""The clients of the analytics enabler: deploy insights, and read or follow their results."""

import uuid
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from httpx_sse import ServerSentEvent
from pydantic import BaseModel

from analytics.client import event_calls, explore_calls
from analytics.client.event_calls import MAX_SILENCE_S
from analytics.client.explore_calls import model_call as _call
from analytics.fog_models import (
    FogChanges,
    FogSnapshot,
    NodeDrain,
    PlacementChange,
    PlacementChanges,
    Placements,
)
from analytics.health_models import Health
from analytics.insight_models import (
    Accepted,
    CheckAnswer,
    Decision,
    Decisions,
    DeploymentList,
    DeploymentStatus,
    Explanation,
    PlacementPlan,
    Result,
    Results,
    Submission,
)
from mistbow.client.methods import (
    AsyncClient,
    Client,
    Method,
    ResumableMethod,
    ServerSentEvents,
    StreamCall,
)
from mistbow.client.transport import Call, no_answer, without_none
from mistbow.errors import MistbowError, NotFoundError, UnavailableError

Model = TypeVar("Model", bound=BaseModel)

_ROOT = "/api/insights"


def submit(
    queries: str, *, name: str | None = None, idempotency_key: str | None = None
) -> Call[Accepted]:
    """Deploy insights, as one deployment.

    A repeated request with the same idempotency key deploys nothing, and returns the first
    deployment. Raises ``InvalidQueryError`` if the text has errors; the details of the exception
    are the diagnostics of the text.
    """
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    body = _body(queries, name)
    return _call("POST", _ROOT, Accepted, json=body, headers=headers, repeatable=True)


def amend(
    deployment_id: str, queries: str, *, name: str | None = None, version: str | None = None
) -> Call[Accepted]:
    """Replace the insights of a deployment; insights with unchanged meaning are not interrupted.

    ``version``: the ``version`` of the deployment that the caller has read. Raises
    ``PreconditionFailedError`` if somebody has changed it since; None: amend any version.
    """
    body, headers = _body(queries, name), _if_match(version)
    return _call("PUT", _path(deployment_id), Accepted, json=body, headers=headers, repeatable=True)


def check(queries: str) -> Call[CheckAnswer]:
    """Return the errors and warnings of a text, without deploying the text."""
    return _call("POST", f"{_ROOT}/check", CheckAnswer, json=_body(queries), repeatable=True)


def explain(queries: str) -> Call[Explanation]:
    """Return the plan of a text, and whether each fragment of the plan already runs."""
    return _call("POST", f"{_ROOT}/explain", Explanation, json=_body(queries), repeatable=True)


def explain_text(queries: str) -> Call[str]:
    """Return the plan of a text in a human-readable format."""
    return Call(
        "POST",
        f"{_ROOT}/explain",
        lambda response: response.text,
        params={"format": "text"},
        json=_body(queries),
        repeatable=True,
    )


def plan(queries: str, *, scheduler: str | None = None) -> Call[PlacementPlan]:
    """Return the placement of a text, its latency, traffic and cost, without deploying the text.

    ``scheduler``: the scheduler that places the insights; None: the schedulers that they name.
    """
    params = without_none({"scheduler": scheduler})
    body = _body(queries)
    path = "/api/placements/plan"
    return _call("POST", path, PlacementPlan, params=params, json=body, repeatable=True)


def fog(at: int | None = None) -> Call[FogSnapshot]:
    """Return the nodes and links that schedulers receive, and the sites, fragments and flows.

    ``at``: an earlier time (ms since the epoch); None: now.
    """
    params = without_none({"at": at})
    return _call("GET", "/api/fog", FogSnapshot, params=params, repeatable=True)


def drain(node: str) -> Call[None]:
    """Move the fragments of a node to other nodes; raises ``NotFoundError`` for an unknown node."""
    return Call("PUT", _drain_path(node), no_answer, repeatable=True)


def undrain(node: str) -> Call[None]:
    """Let a drained node receive fragments again."""
    return Call("DELETE", _drain_path(node), no_answer, repeatable=True)


def node_drain(node: str) -> Call[NodeDrain]:
    """Return whether a node is drained, and its remaining fragments in all domains.

    Raises ``UnavailableError`` if the worker of the node does not list its fragments.
    """
    return _call("GET", _drain_path(node), NodeDrain, repeatable=True)


def health() -> Call[Health]:
    """Return the health of the domain: its state, and its problems with their remedies."""
    return _call("GET", "/api/health", Health, repeatable=True)


def fog_changes(
    start: int | None = None,
    end: int | None = None,
    *,
    limit: int | None = None,
    newest: bool | None = None,
) -> Call[FogChanges]:
    """Return the changes of the fog in a span (ms), by default in the last hour.

    ``newest``: the last changes up to the limit, instead of the first.
    """
    params = without_none({"from": start, "to": end, "limit": limit, "newest": newest})
    return _call("GET", "/api/fog/history", FogChanges, params=params, repeatable=True)


def placements(at: int | None = None) -> Call[Placements]:
    """Return where each fragment is placed now, or was placed at an earlier time (ms)."""
    params = without_none({"at": at})
    return _call("GET", "/api/placements", Placements, params=params, repeatable=True)


def placement_changes(
    start: int | None = None,
    end: int | None = None,
    *,
    group: str | None = None,
    limit: int | None = None,
) -> Call[list[PlacementChange]]:
    """Return the fragments that were placed, moved or stopped in a span (ms; the last hour)."""
    params = without_none({"from": start, "to": end, "group": group, "limit": limit})
    path = "/api/placements/history"
    call = _call("GET", path, PlacementChanges, params=params, repeatable=True)
    return call.map(lambda each: each.changes)


def list_deployments() -> Call[list[DeploymentStatus]]:
    """Return the status of every deployment, with the oldest deployment first."""
    return _call("GET", _ROOT, DeploymentList, repeatable=True).map(lambda each: each.deployments)


def show(deployment_id: str) -> Call[DeploymentStatus]:
    """Return the status of a deployment; raises ``NotFoundError`` for an unknown id."""
    return _call("GET", _path(deployment_id), DeploymentStatus, repeatable=True)


def delete(deployment_id: str, *, version: str | None = None) -> Call[None]:
    """Stop a deployment and remove it; raises ``NotFoundError`` for an unknown id.

    ``version``: as for ``amend``.
    """
    # Not repeatable: the second answer would be an error.
    return Call("DELETE", _path(deployment_id), no_answer, headers=_if_match(version))


def pause(deployment_id: str) -> Call[DeploymentStatus]:
    """Pause a deployment; its results so far are retained. A paused deployment does not change."""
    return _call("POST", f"{_path(deployment_id)}/pause", DeploymentStatus, repeatable=True)


def resume(deployment_id: str) -> Call[DeploymentStatus]:
    """Resume a paused deployment; a deployment that is not paused does not change."""
    return _call("POST", f"{_path(deployment_id)}/resume", DeploymentStatus, repeatable=True)


def decisions(
    insight: str | None = None, *, since: int | None = None, limit: int | None = None
) -> Call[list[Decision]]:
    """Return the newest ``limit`` decisions of the enabler in the order of time.

    ``insight``: only decisions about this deployment (ID), or about one of its insights (ID/NAME);
    None: all decisions. ``since``: the earliest time (ms since the epoch).
    """
    params = without_none({"insight": insight, "since": since, "limit": limit})
    call = _call("GET", "/api/decisions", Decisions, params=params, repeatable=True)
    return call.map(lambda each: each.decisions)


def results(
    deployment_id: str,
    *,
    insight: str | None = None,
    start: int | None = None,
    end: int | None = None,
    limit: int | None = None,
    settled_until: int | None = None,
    wait_s: float | None = None,
) -> Call[Results]:
    """Return the latest ``limit`` results in the order of time, each in its latest revision.

    ``insight``: the only insight whose results are returned; None: all insights of the deployment.
    ``start`` and ``end``: the earliest and the latest time of a result (ms since the epoch); None:
    no bound. ``settled_until``: wait until the results up to this time (ms) are complete and
    include all points that are stored now, at most for ``wait_s``; ``settled`` of the answer is
    whether they are.
    """
    bounds = {"insight": insight, "from": start, "to": end, "limit": limit}
    params = without_none({**bounds, "settled_until": settled_until, "wait": wait_s})
    path = f"{_path(deployment_id)}/results"
    return _call("GET", path, Results, params=params, repeatable=True, wait_s=wait_s or 0.0)


@dataclass
class ResultFeed:
    """A subscription to new results; a reconnection continues after the last received event."""

    deployment_id: str
    insight: str | None
    last_event_id: str | None
    _connected: bool = False

    def stream(self) -> StreamCall[Result]:
        """Return the request for the results after the last received event."""
        headers = {"Accept": "text/event-stream"}
        if self.last_event_id is not None:
            headers["Last-Event-ID"] = self.last_event_id
        params = without_none({"insight": self.insight})
        path = f"{_path(self.deployment_id)}/results/follow"
        call = Call("GET", path, no_answer, params=params, headers=headers)
        return StreamCall(call, ServerSentEvents(self._read), "the results", MAX_SILENCE_S)

    def connect(self) -> None:
        """Record that a connection to the results of the deployment has succeeded."""
        self._connected = True

    def is_over(self, error: MistbowError) -> bool:
        """Return whether an error means that the deployment was deleted after the first connection.

        Raises the error if no connection has succeeded yet, or if a retry would fail again.
        """
        if not self._connected or not isinstance(error, NotFoundError | UnavailableError):
            raise error
        return isinstance(error, NotFoundError)

    def _read(self, event: ServerSentEvent) -> Result | None:
        self.last_event_id = event.id or self.last_event_id
        return Result.model_validate_json(event.data) if event.event == "result" else None


def follow(
    deployment_id: str, *, insight: str | None = None, after: str | None = None
) -> ResultFeed:
    """Yield results as they are computed, also across restarts of the enabler.

    ``after``: the cursor ``next`` of earlier ``Results``, after which the yielded results begin;
    None: only results that are computed after the call are yielded. The iteration ends when the
    deployment is deleted. Raises ``NotFoundError`` if the deployment does not exist at the first
    connection.
    """
    return ResultFeed(deployment_id, insight, after)


def _path(deployment_id: str) -> str:
    return f"{_ROOT}/{quote(deployment_id, safe='')}"


def _if_match(version: str | None) -> dict[str, str]:
    return {} if version is None else {"If-Match": f'"{version}"'}


def _drain_path(node: str) -> str:
    return f"/api/nodes/{quote(node, safe='')}/drain"


def _body(queries: str, name: str | None = None) -> dict[str, Any]:
    return Submission.model_construct(queries=queries, name=name).model_dump(exclude_none=True)


class EnablerMethods:
    """The methods that the sync client and the async client of an enabler share."""

    submit = Method(submit)
    amend = Method(amend)
    check = Method(check)
    explain = Method(explain)
    explain_text = Method(explain_text)
    plan = Method(plan)
    fog = Method(fog)
    drain = Method(drain)
    undrain = Method(undrain)
    node_drain = Method(node_drain)
    health = Method(health)
    fog_changes = Method(fog_changes)
    placements = Method(placements)
    placement_changes = Method(placement_changes)
    list = Method(list_deployments)
    show = Method(show)
    delete = Method(delete)
    pause = Method(pause)
    resume = Method(resume)
    decisions = Method(decisions)
    results = Method(results)
    download = Method(explore_calls.download)
    format = Method(explore_calls.format_queries)
    complete = Method(explore_calls.complete)
    preview = Method(explore_calls.preview)
    metrics = Method(explore_calls.metrics)
    series = Method(explore_calls.series)
    attributes = Method(explore_calls.attributes)
    sql = Method(explore_calls.sql)
    promql = Method(explore_calls.promql)
    follow = ResumableMethod(follow)
    events = ResumableMethod(event_calls.events)


class EnablerClient(EnablerMethods, Client):
    """A sync client of an analytics enabler.

    If the enabler answers with an error, the method raises the ``MistbowError`` of this error.
    """


class AsyncEnablerClient(EnablerMethods, AsyncClient):
    """An async client of an analytics enabler, with the methods and errors of ``EnablerClient``."""
