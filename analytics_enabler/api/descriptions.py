"""Descriptions of the enabler's parameters, fields and answers, for its OpenAPI document."""

from collections.abc import Mapping
from typing import Any

from mistbow.openapi import AnswerDescription, ApiDescription

_FIELDS: Mapping[str, str] = {
    "deployment_id": "The id of the deployment.",
    "insight": "The name of the insight.",
    "from": "The first time, in ms since the epoch, inclusive.",
    "to": "The last time, in ms since the epoch, inclusive.",
    "limit": "The maximum number of results.",
    "format": "The form of the answer: JSON, or text for people.",
    "idempotency-key": "A key of your choice by which the enabler recognizes a repeated request.",
    "last-event-id": "The id of the last event, or the next of results: the events after it.",
    "insights": "The insights, or their names.",
    "warnings": "The warnings about the text.",
    "ok": "Whether the text has no errors.",
    "problems": "The errors and warnings of the text.",
    "line": "The line in the text, from 1.",
    "column": "The column in the line, from 1.",
    "length": "The number of characters; 0 at the end of the text.",
    "message": "What is wrong, for people.",
    "hint": "How to correct the text.",
    "severity": "error, or warning.",
    "name": "The name.",
    "uid": "The id of the insight.",
    "text": "The text.",
    "every_ms": "The interval (ms) between two ticks.",
    "since": "The time (ms) after which the definition is in force.",
    "first_tick": "The first tick with results, in ms since the epoch.",
    "state": "The status of the insight, with fewer values than lifecycle.",
    "Lifecycle.state": "The state.",
    "Lifecycle.since": "The time (ms) at which the state began; null: unknown.",
    "lifecycle": "The state in the life cycle, and since when; of a deployment the worst.",
    "lag_ms": "How long (ms) the oldest missing result has been due; null: unknown.",
    "InsightStatus.missing_sites": "The sites without which results are computed now.",
    "MissingSite.since": "The time (ms) since which the points are missing; null: unknown.",
    "why": "The reason, for people.",
    "InsightStatus.group": "The id of the group that computes the insight.",
    "placement": "The fragments, and where they are placed; empty in a list of deployments.",
    "ended": "The former definitions; empty in a list of deployments.",
    "DeploymentStatus.decisions": "The newest decisions; empty in a list of deployments.",
    "until": "The time (ms) up to which the definition was in force.",
    "EndedInsight.state": "The state; stopped once all results are stored.",
    "fragment": "The id of the fragment.",
    "node": "The worker; null: no worker can run the fragment.",
    "PlacedFragment.site": "The site of the worker; null: unknown.",
    "PlacedFragment.since": "The time (ms) of the placement on this worker; null: unknown.",
    "PlacedFragment.state": "The state that the worker reports; null: it reports nothing.",
    "decisions": "The decisions in the order of time.",
    "at": "The time, in ms since the epoch.",
    "Decision.kind": "The kind of the decision.",
    "subject": "The deployment, the group of a fragment, the site, the worker or the scheduler.",
    "what": "What the enabler did or found, for people.",
    "by": "Who decided: a token, a scheduler, or the enabler.",
    "state_since": "The time (ms) since which it lags, is shed, waits or fails; null: it runs.",
    "status": "The state of the insight that has made the least progress.",
    "status_since": "The state_since of this insight.",
    "error": "What is missing, since when, why, and what comes next; null: nothing is missing.",
    "queries": "The text of the insights.",
    "created_at": "The time of the submission, in ms since the epoch.",
    "updated_at": "The time of the last amendment, pause or resumption, in ms since the epoch.",
    "deployments": "All deployments, the oldest first.",
    "missing_domains": "The domains whose enablers do not answer; null: all answer.",
    "domain": "The domain whose enabler runs the deployment.",
    "results": "The results in the order of time.",
    "next": "The cursor from which a client can follow later results.",
    "missing_sites": "The unreachable sites, whose results are missing.",
    "key": "The values of the attributes in BY.",
    "ts": "The tick, in ms since the epoch.",
    "value": "The value; null: the result is a text, or is withdrawn.",
    "values": "All values of a function that computes several.",
    "low": "The lower end of the confidence interval.",
    "high": "The upper end of the confidence interval.",
    "confidence": "The probability that the value is between low and high.",
    "revision": "The version of the result; the greatest is valid.",
    "computed_at": "The time of the computation, in ms since the epoch.",
    "missing": "The silent sites whose points are missing in the result.",
    "ast": "The syntax tree.",
    "plan": "The plan as text, a line for each node.",
    "steps": "The steps of the optimizer.",
    "groups": "The groups that the insights would join.",
    "shared": "The windows and panes that the insights share with others.",
    "group": "The id of the group.",
    "rule": "The rule of the optimizer.",
    "did": "What the step changed, for people.",
    "step": "The kind of the step.",
    "unit": "The unit of per_s and instead_of.",
    "per_s": "The points or results per second, at most; null: unknown.",
    "instead_of": "The traffic per second without the step; null: unknown.",
    "id": "The id.",
    "scheduler": "The name of the scheduler.",
    "ExplainedGroup.insights": "The number of insights in the group.",
    "fragments": "The fragments of the plan.",
    "edges": "The traffic between the fragments and streams.",
    "savings": "The traffic that the optimizer saves.",
    "refusals": "Why nodes do not run tasks of the group.",
    "remote_reads": "The sites whose points a worker at another site reads.",
    "reason": "Why no worker of the site reads its points.",
    "worker_site": "The site of the worker.",
    "read_at": "The site at which the points are read.",
    "latency_ms": "The latency (ms) from there to the worker; null: unknown.",
    "RemoteRead.site": "The site whose points are read.",
    "RemoteRead.worker": "The worker that reads the points.",
    "problem": "Why the scheduler failed; null: it did not fail.",
    "cost_per_hour": "The cost of the placement; null: there is no placement.",
    "cost_cap_per_hour": "The maximum cost; null: the cost is not limited.",
    "kind": "The kind of the fragment.",
    "sources": "The streams that the fragment reads.",
    "target": "The stream that the fragment writes, or the end of the edge.",
    "worker": "The worker that would run the fragment; null: no worker can run the fragment.",
    "site": "The site of the worker.",
    "running": "Whether a worker runs the fragment now.",
    "source": "The beginning of the edge: a stream or a fragment.",
    "carries": "What flows along the edge.",
    "is_local": "Whether both ends are at the same site.",
    "bytes_per_s": "The bytes per second, at most; null: unknown.",
    "measured": "The bytes per second that the fragment writes now; null: unknown.",
    "others": "The ids of the other insights.",
}

_TIME = 1795262400000
_ACCEPTED = {"deployment_id": "d-1a2b3c4d", "insights": ["cpu_now"], "warnings": []}
_STATUS = {
    **{"deployment_id": "d-1a2b3c4d", "name": None, "status": "running", "error": None},
    **{"queries": "cpu_now = COMPUTE AVG(cpu.util, 10 SECONDS) EVERY 5 SECONDS"},
    **{"created_at": _TIME, "updated_at": _TIME, "insights": [], "warnings": []},
}
_DECISION = {
    **{"at": _TIME, "kind": "deployment_paused", "subject": "d-1a2b3c4d"},
    **{"what": "the deployment d-1a2b3c4d is paused", "why": "a request", "by": "token operator"},
}
_RESULT = {
    **{"insight": "cpu_now", "key": {"node": "edge-1"}, "ts": _TIME, "value": 0.5},
    **{"revision": 0, "computed_at": _TIME + 1200},
}


def _json(model: str, example: Any, *statuses: int) -> AnswerDescription:
    schema = {"$ref": f"#/components/schemas/{model}"}
    content = {"application/json": {"schema": schema, "example": example}}
    return AnswerDescription(content, statuses or (200,))


_EVENT = {"schema": {"type": "string"}, "example": "event: result\nid: all.fair=9\ndata: {}\n\n"}
_PLAN = {"schema": {"type": "string"}, "example": "Syntax\n  Insight name=a\n"}
_ID = "_api_insights_deployment_id"

DESCRIPTION = ApiDescription(
    _FIELDS,
    {
        "post_api_insights": _json("Accepted", _ACCEPTED, 201),
        f"put{_ID}": _json("Accepted", _ACCEPTED),
        "get_api_insights": _json("DeploymentList", {"deployments": [_STATUS]}),
        f"get{_ID}": _json("DeploymentStatus", _STATUS),
        "post_api_insights_check": _json("CheckAnswer", {"ok": True, "problems": []}),
        "post_api_insights_explain": AnswerDescription(
            {**_json("Explanation", {"problems": [], "plan": ["…"]}).content, "text/plain": _PLAN}
        ),
        f"post{_ID}_pause": _json("DeploymentStatus", {**_STATUS, "status": "paused"}),
        f"post{_ID}_resume": _json("DeploymentStatus", _STATUS),
        f"get{_ID}_decisions": _json("Decisions", {"decisions": [_DECISION]}),
        "get_api_decisions": _json("Decisions", {"decisions": [_DECISION]}),
        f"get{_ID}_results": _json("Results", {"results": [_RESULT], "next": "all.fair=9"}),
        f"get{_ID}_results_follow": AnswerDescription({"text/event-stream": _EVENT}),
    },
)
