"""The wire models of the health of a domain: its problems and its counts."""

from typing import Literal

from pydantic import BaseModel, Field

Severity = Literal["error", "warning"]
ProblemKind = Literal[
    "enabler_waiting", "enabler_warning", "fabric_unknown", "site_silent", "site_suspected",
    "agent_waiting", "agent_warning", "worker_suspected", "worker_limited", "identity_expires",
    "certificate_expires", "no_free_cores", "no_free_memory", "lossy_links", "fragments_lagging",
    "insight_failed", "insight_unplaced", "insight_shed", "insight_lagging", "insight_degraded",
    "insight_incomplete",
]  # fmt: skip


class Problem(BaseModel):
    """A problem, with its subject, its beginning and its remedy."""

    severity: Severity = Field(description="error: something does not work. warning: it may stop.")
    kind: ProblemKind = Field(description="The kind, which does not depend on names.")
    subject: str = Field(
        description="The subject: a site, a worker, an insight (ID/NAME), or the enabler."
    )
    site: str | None = Field(description="The site of the subject; null: it has none.")
    service: Literal["agent", "worker", "enabler"] | None = Field(
        default=None,
        description="The kind of the service with the identity or certificate; null: none.",
    )
    what: str = Field(description="The problem, in one sentence.")
    since: int | None = Field(
        description="The time (ms) since which the enabler observes the problem; null: unknown."
    )
    action: str = Field(description="The remedy, for an operator.")


class HealthCounts(BaseModel):
    """The numbers of the sites, workers, fragments and insights of a domain."""

    sites: int = Field(description="The sites of the domain.")
    sites_reachable: int = Field(description="The sites that are reachable now.")
    workers: int = Field(description="The workers.")
    fragments: int = Field(description="The fragments.")
    insights: int = Field(description="The insights, without those that a request has paused.")
    insights_running: int = Field(description="The insights that have results now.")


class Health(BaseModel):
    """The health of a domain."""

    at: int = Field(description="The time, in ms since the epoch.")
    state: Literal["ok", "degraded", "failed"] = Field(
        description="ok: no problems. degraded: warnings only. failed: at least one error."
    )
    problems: list[Problem] = Field(description="The problems: errors first, then the oldest.")
    counts: HealthCounts = Field(description="The numbers of sites, workers, and others.")
