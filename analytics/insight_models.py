"""The wire models of the enabler's API, shared by the service, the clients and the command line.

All times are in milliseconds since the epoch.
"""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from analytics.plan.fragments import FragmentKind
from grammar import Diagnostic


class Submission(BaseModel):
    """Insights to deploy, check or explain."""

    model_config = ConfigDict(extra="forbid", strict=True)

    queries: str = Field(min_length=1, description="Statements of the insight language.")
    name: str | None = Field(
        None, min_length=1, max_length=200, description="The name of the deployment."
    )


class Accepted(BaseModel):
    """The answer to a submission: the deployment that is stored and will run.

    ``version``: the version of the deployment, for a condition of later requests; None: an enabler
    of an earlier version answered.
    """

    deployment_id: str
    insights: list[str]
    warnings: list[Diagnostic]
    version: str | None = None


class CheckAnswer(BaseModel):
    """The diagnostics of a text; ``ok``: the text has no errors, but may have warnings."""

    ok: bool
    problems: list[Diagnostic]


class Lifecycle(BaseModel):
    """A state in the life cycle of an insight, and the time at which it began; None: unknown."""

    state: str
    since: int | None


class MissingSite(BaseModel):
    """A site whose points are missing in the results: since when, and why."""

    site: str
    since: int | None
    why: str


class RemoteRead(BaseModel):
    """The reading of the points of ``site`` by the worker ``worker`` at another site.

    ``reason``: why no worker of the site reads the points. ``latency_ms``: the latency (ms) from
    the site to the worker; None: unknown.
    """

    site: str
    reason: str
    worker: str
    worker_site: str
    latency_ms: float | None = None

    @property
    def words(self) -> str:
        """The read in a human-readable format."""
        why = self.reason.replace("the site", f"the site {self.site}")
        reader = f"the worker {self.worker} at {self.worker_site}"
        away = "" if self.latency_ms is None else f" ({self.latency_ms:.0f} ms away)"
        return f"{why}; {reader} reads its points{away}"


class WindowCoverage(BaseModel):
    """A window that began before the first points of its metric.

    The window of the points of ``metric`` is ``(begins_at, ends_at]``, and its first points are at
    ``points_from`` (ms).
    """

    metric: str
    begins_at: int
    points_from: int
    ends_at: int

    @property
    def share(self) -> float:
        """The share of the window that its points cover, from 0 to 1."""
        return (self.ends_at - self.points_from) / (self.ends_at - self.begins_at)


class InsightStatus(BaseModel):
    """The status of an insight of a deployment.

    ``since``: the time after which the present definition of the insight is in force.
    ``first_tick``: the first tick with results. ``state`` has fewer values than ``lifecycle``;
    answers of earlier versions lack ``lifecycle``. ``state_since``: the time since which the
    insight has been shed, has lagged, has waited or has failed; None: none of these. ``error``:
    what is missing, since when, why, and what comes next; None: nothing is missing. ``group``: the
    id of the group that computes the insight. ``lag_ms``: how long the oldest missing result has
    been due; None: no worker reports it. ``missing_sites``: the sites that the present results
    lack. ``remote_reads``: the sites whose points a worker at another site reads.
    ``corrections_due``: the number of ticks whose results lack late points. ``silent``: why the
    insight had no value in its last three intervals; None: it had one, or has just started.
    ``each_point``: the insight has values at points, not at ticks. ``every_points``: the number of
    points between two of these values; None: each point has a value. ``salience``: the importance,
    by the option SALIENCE. ``unit``: the unit of the values; None: none, or unknown. ``window``: a
    window that began before the first points of its metric; None: no such window, or a list of
    deployments.
    """

    name: str
    uid: str
    text: str
    every_ms: int
    since: int
    first_tick: int
    state: str
    state_since: int | None = None
    error: str | None = None
    lifecycle: Lifecycle | None = None
    group: str | None = None
    lag_ms: int | None = None
    missing_sites: list[MissingSite] = []
    remote_reads: list[RemoteRead] = []
    corrections_due: int = 0
    silent: str | None = None
    each_point: bool = False
    every_points: int | None = None
    salience: int = 0
    unit: str | None = None
    window: WindowCoverage | None = None

    @property
    def present_lifecycle(self) -> Lifecycle:
        """The lifecycle, or the state if an enabler of an earlier version sent no lifecycle."""
        return self.lifecycle or Lifecycle(state=self.state, since=self.state_since)


class EndedInsight(BaseModel):
    """A former definition of an insight, in force for the ticks in ``(since, until]``.

    ``state``: ``stopped`` once all its results are stored. ``missing_sites``: the sites that are
    missing in its final results. ``text``: the definition; None in answers of earlier versions.
    """

    name: str
    uid: str
    since: int
    until: int
    state: str
    missing_sites: list[str] = []
    text: str | None = None


class PlacedFragment(BaseModel):
    """The placement of a fragment of a group on a worker since the time ``since``.

    ``node`` and ``site``: the worker, and its site; None: no worker can run the fragment.
    ``state``: the state that the worker reports; None: it reports nothing.
    """

    group: str
    fragment: str
    kind: FragmentKind
    node: str | None
    site: str | None
    since: int | None
    state: str | None


class Decision(BaseModel):
    """A decision of the enabler at the time ``at``, with its reason and its author.

    ``subject``: the id of a deployment, or of the group of a fragment; or the name of a site, a
    worker or a scheduler.
    """

    at: int
    kind: str
    subject: str
    what: str
    why: str
    by: str


class Decisions(BaseModel):
    """Decisions in the order of time."""

    decisions: list[Decision]


class DeploymentMove(BaseModel):
    """The move of a deployment to a larger ``domain``, since ``since`` (ms), for a ``reason``.

    ``refusal``: why the enabler of this domain has refused the deployment at ``refused_at`` (ms);
    None: no refusal.
    """

    domain: str
    since: int
    reason: str
    refusal: str | None = None
    refused_at: int | None = None


class DeploymentStatus(BaseModel):
    """A deployment and its status; ``domain``: the domain whose enabler runs it.

    ``owner``: who submitted the deployment; None: an earlier version accepted it.

    ``status`` and ``lifecycle``: the worst status and state of its insights. ``status_since``: the
    ``state_since`` of the insight with the worst status. ``error``: the errors of all insights.
    ``placement``, ``ended`` and the newest ``decisions`` are empty in a list of deployments.

    ``version``: what a later amendment or deletion can require (If-Match); it changes with the text
    and the name. ``amended_at`` and ``amended_by``: the time (ms) and the author of the last
    amendment; None: no amendment, or an unknown author. ``move``: the pending move to a larger
    domain; None: no move.
    """

    deployment_id: str
    name: str | None
    status: str
    status_since: int | None = None
    error: str | None
    queries: str
    created_at: int
    updated_at: int
    insights: list[InsightStatus]
    warnings: list[Diagnostic]
    lifecycle: Lifecycle | None = None
    placement: list[PlacedFragment] = []
    ended: list[EndedInsight] = []
    decisions: list[Decision] = []
    domain: str | None = None
    owner: str | None = None
    version: str | None = None
    amended_at: int | None = None
    amended_by: str | None = None
    move: DeploymentMove | None = None

    @property
    def present_lifecycle(self) -> Lifecycle:
        """The lifecycle, or the status if an enabler of an earlier version sent no lifecycle."""
        return self.lifecycle or Lifecycle(state=self.status, since=self.status_since)


class DeploymentList(BaseModel):
    """All deployments, the oldest first.

    ``missing_domains``: the domains whose enablers do not answer; None: all answer.
    """

    deployments: list[DeploymentStatus]
    missing_domains: list[str] | None = None


class Result(BaseModel):
    """The result of an insight for a key at a time: a number, or a text (``text``).

    A result with neither a value nor a text withdraws the earlier result for the same key and time.
    An attribute of the key is null if the points lack the attribute. ``values``: all values of a
    function that computes several values. ``few_points``: the number of sampled points, if it is
    too small for narrow bounds. ``missing``: the silent sites, whose points are not included in the
    result.
    """

    insight: str
    key: dict[str, str | int | float | bool | None]
    ts: int
    value: float | None
    values: list[float] | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    few_points: int | None = None
    text: str | None = None
    revision: int
    computed_at: int
    missing: list[str] = []

    @property
    def key_words(self) -> str:
        """The key in a human-readable format."""
        shown = {name: "-" if value is None else value for name, value in self.key.items()}
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    def value_words(self, form: str) -> str:
        """Return the value in a human-readable format.

        ``form``: the format specification for numbers, for example ``g``.
        """
        if self.text is not None:
            return self.text
        return "withdrawn" if self.value is None else format(self.value, form)

    @property
    def notes(self) -> str:
        """Remarks on the value: missing sites, and bounds that follow from too few points.

        Empty without remarks.
        """
        few = f"bounds of {self.few_points} points" if self.few_points is not None else ""
        missing = f"without {', '.join(self.missing)}" if self.missing else ""
        return "; ".join(filter(None, (few, missing)))


class Results(BaseModel):
    """Results in the order of time.

    ``next``: the cursor from which a client can follow later results. ``missing_sites``: the
    unreachable sites, whose results are not included. ``settled``: whether the results up to the
    requested time are complete and include all points that were stored at the time of the request;
    ``unsettled``: why not; None: the request did not ask for it.
    """

    results: list[Result]
    next: str
    missing_sites: list[str] = []
    settled: bool | None = None
    unsettled: list[str] = []


class ExplainedStep(BaseModel):
    """A step of the optimizer: the change that ``rule`` made to the plan of ``group``.

    ``did``: a description of the change. ``plan``: the changed plan as text, with one line for each
    node of the plan. The plan contains only the insights of the explained text.
    """

    group: str
    rule: str
    did: str
    plan: list[str]


class FragmentCostModel(BaseModel):
    """The demand of a fragment: CPU seconds per second, memory, and rows and bytes per second.

    ``points_per_s``: the points, or the panes of a merge, that the fragment reads.
    ``check_core_s``: the CPU time of the check of one point; None: no points can be checked.
    """

    cores: float | None = None
    memory_mb: float | None = None
    points_per_s: float | None = None
    bytes_per_s: float | None = None
    check_core_s: float | None = None


class ExplainedFragment(BaseModel):
    """A fragment of the plan of a text.

    ``sources`` and ``target``: the streams that the fragment reads and writes, as ``site/stream``.
    ``worker`` and ``site``: the worker that would run the fragment, and the site of this worker;
    None: no worker can run the fragment. ``running``: whether a worker runs the fragment now.
    ``plan``: the plan of the fragment as text, with one line for each node of the plan. ``cores``
    and ``memory_mb``: the demand that the schedulers assume. ``estimated`` and ``measured``: the
    demand of the fragment as the cost model estimates it, and as it was measured; None: unknown.
    ``data_latency_ms``: the latency from the points that the fragment reads to the worker; None:
    unknown, or the fragment reads no points. ``checked``: the share of the points whose quality the
    worker would check.
    """

    id: str
    kind: FragmentKind
    sources: list[str]
    target: str
    worker: str | None
    site: str | None
    running: bool
    plan: list[str]
    cores: float | None = None
    memory_mb: float | None = None
    estimated: FragmentCostModel | None = None
    measured: FragmentCostModel | None = None
    data_latency_ms: float | None = None
    checked: float = 0.0


class ExplainedEdge(BaseModel):
    """The traffic from ``source`` to ``target``, each a stream (``site/stream``) or a fragment id.

    ``per_s``: points or results per second; None for panes. ``bytes_per_s``: bytes per second. Both
    ``per_s`` and ``bytes_per_s`` are approximate upper bounds. ``measured``: the bytes per second
    that the fragment ``source`` actually writes. An unknown figure is None. ``is_local``: whether
    ``source`` and ``target`` are at the same site.
    """

    source: str
    target: str
    carries: Literal["points", "panes", "results"]
    is_local: bool
    per_s: float | None = None
    bytes_per_s: float | None
    measured: float | None = None


class ExplainedSaving(BaseModel):
    """The traffic that is saved by a step of the computation at the sites of the points.

    ``did``: a description of the step. ``per_s``: the traffic per second with the step, counted in
    ``unit``; ``instead_of``: the traffic per second without the step. The two figures are
    approximate upper bounds; an unknown figure is None.
    """

    step: Literal["pre_aggregate", "push_sampling"]
    did: str
    unit: str
    per_s: float | None
    instead_of: float | None


class ExplainedGroup(BaseModel):
    """A group that the insights of an explained text would join.

    ``insights``: the number of insights in the group, including those of the text. ``refusals``:
    the reasons why nodes do not run tasks of the group. ``remote_reads``: the sites whose points a
    worker at another site would read. ``problem``: the reason why the scheduler failed; None: the
    scheduler did not fail. ``cost_per_hour``: the cost of the placement, from the price labels of
    nodes and sites; None: the group has no placement. ``latency_ms``: the latency in ms of the
    slowest path over links from the points to the results; None: unknown.
    """

    id: str
    scheduler: str
    insights: int
    fragments: list[ExplainedFragment]
    edges: list[ExplainedEdge]
    savings: list[ExplainedSaving] = []
    refusals: list[str]
    remote_reads: list[RemoteRead] = []
    problem: str | None
    cost_per_hour: float | None = None
    cost_cap_per_hour: float | None = None
    latency_ms: float | None = None


class Shared(BaseModel):
    """A window or a pane, named by ``id``, that ``insight`` shares with other insights.

    ``others``: the uids of the other insights. ``text``: a sentence that describes the sharing.
    """

    insight: str
    id: str
    others: list[str]
    text: str


class Explanation(BaseModel):
    """The explanation of a text. If the text has errors, only ``problems`` is set.

    ``summary``: lines that describe the insights, their traffic and their workers, for people.
    """

    problems: list[Diagnostic]
    summary: list[str] = []
    ast: list[dict[str, Any]] = []
    plan: list[str] = []
    steps: list[ExplainedStep] = []
    groups: list[ExplainedGroup] = []
    shared: list[Shared] = []


class PlannedMove(BaseModel):
    """A fragment that runs now, and would move to another worker.

    ``from_worker``: the present worker. ``to_worker``: the next worker; None: no worker could run
    the fragment. ``why``: the figures that the move improves; None: none, or the worker is lost.
    """

    group: str
    task: str
    from_worker: str
    to_worker: str | None
    why: str | None = None


class PlacementPlan(BaseModel):
    """The placement of a text that is not deployed. With errors, only ``problems`` is set.

    ``groups``: the groups that the insights would join. ``moves``: the running fragments that would
    move, also those of other groups. A plan without groups has no placement, because the enabler
    has not read the fabric yet.
    """

    problems: list[Diagnostic]
    groups: list[ExplainedGroup] = []
    moves: list[PlannedMove] = []
