"""What the enabler's API takes and answers; the service, the client and the command share it.

All times are in milliseconds since the epoch.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from grammar import Problem


class Submission(BaseModel):
    """Insights to deploy, check or explain."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: str = Field(min_length=1, description="Statements of the insight language.")
    name: str | None = Field(
        None, min_length=1, max_length=200, description="What people call the deployment."
    )


class Accepted(BaseModel):
    """A deployment that is stored and will run."""

    deployment_id: str
    insights: list[str]
    warnings: list[Problem]


class CheckAnswer(BaseModel):
    """All that is wrong with a text; ``ok`` if nothing but warnings."""

    ok: bool
    problems: list[Problem]


class InsightStatus(BaseModel):
    """An insight of a deployment: a ``state`` in words, and from which tick on it has results.

    Of one that is shed or lags, ``state_since`` tells since when.
    """

    name: str
    uid: str
    text: str
    every_ms: int
    since: int
    first_tick: int
    state: str
    state_since: int | None = None


class DeploymentStatus(BaseModel):
    """A deployment; its ``status``, and since when, is that of the insight that is least far."""

    deployment_id: str
    name: str | None
    status: str
    status_since: int | None = None
    error: str | None
    queries: str
    created_at: int
    updated_at: int
    insights: list[InsightStatus]
    warnings: list[Problem]


class DeploymentList(BaseModel):
    """Every deployment, the oldest first."""

    deployments: list[DeploymentStatus]


class Result(BaseModel):
    """What an insight says for a key at a tick: a value, or a text if its values are texts.

    Without either, an earlier result is withdrawn. An attribute of the key that the points lack is
    null. ``values``: all of them, of functions that have several. ``missing``: the sites whose
    points are not in it, for they were silent.
    """

    insight: str
    key: dict[str, str | int | float | bool | None]
    ts: int
    value: float | None
    values: list[float] | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    text: str | None = None
    revision: int
    computed_at: int
    missing: list[str] = []

    @property
    def key_words(self) -> str:
        """The key for people to read."""
        told = {name: "-" if value is None else value for name, value in self.key.items()}
        return ", ".join(f"{name}={value}" for name, value in told.items())

    def value_words(self, form: str) -> str:
        """The value for people to read, a number in such a form: ``g``, say."""
        if self.text is not None:
            return self.text
        return "withdrawn" if self.value is None else format(self.value, form)

    @property
    def missing_words(self) -> str:
        """The sites that it does without, for people to read."""
        return f"without {', '.join(self.missing)}" if self.missing else ""


class Results(BaseModel):
    """Results by time, and from where on (an opaque text) to follow those to come.

    ``missing_sites`` cannot be reached now: what is stored there is not among the results.
    """

    results: list[Result]
    next: str
    missing_sites: list[str] = []


class ExplainedStep(BaseModel):
    """What a rule of the optimizer ``did``, in words, and the plan after it, one node a line.

    The plan is of the insights of a text that are in the same ``group``.
    """

    group: str
    rule: str
    did: str
    plan: list[str]


class ExplainedFragment(BaseModel):
    """What one worker runs of a text, one node a line; streams are told as ``site/stream``.

    ``worker`` is None where no worker can run it; ``running``: one does now.
    """

    id: str
    kind: Literal["whole", "partial", "merge"]
    sources: list[str]
    target: str
    worker: str | None
    site: str | None
    running: bool
    plan: list[str]


class ExplainedEdge(BaseModel):
    """What goes from a stream or fragment to another; None where it is not known.

    At most, about: so many points or results (``per_s``, not of panes) and ``bytes_per_s``;
    ``measured``: the bytes/s that a fragment which runs has written. No site sends anything to
    another where both ends are at one (``is_local``).
    """

    source: str
    target: str
    carries: Literal["points", "panes", "results"]
    is_local: bool
    per_s: float | None = None
    bytes_per_s: float | None
    measured: float | None = None


class ExplainedSaving(BaseModel):
    """What fragments do where the points are, and what that saves; None where it is not known.

    At most, about: ``per_s`` so many of the ``unit``, ``instead_of`` so many without this step.
    """

    step: Literal["pre_aggregate", "push_sampling"]
    did: str
    unit: str
    per_s: float | None
    instead_of: float | None


class ExplainedGroup(BaseModel):
    """The insights that run together with some of a text, ``insights`` of them in all.

    ``cost_per_hour`` is by the prices that nodes and sites have as labels; None without a place.
    """

    id: str
    scheduler: str
    insights: int
    fragments: list[ExplainedFragment]
    edges: list[ExplainedEdge]
    savings: list[ExplainedSaving] = []
    refusals: list[str]
    problem: str | None
    cost_per_hour: float | None = None
    cost_cap_per_hour: float | None = None


class Shared(BaseModel):
    """A window or a pane (``id``) that an insight has in common with others (their uids)."""

    insight: str
    id: str
    others: list[str]
    text: str


class Explanation(BaseModel):
    """From a text to what runs; only ``problems`` where the text has errors."""

    problems: list[Problem]
    ast: list[dict[str, Any]] = []
    plan: list[str] = []
    steps: list[ExplainedStep] = []
    groups: list[ExplainedGroup] = []
    shared: list[Shared] = []
