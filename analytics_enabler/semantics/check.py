"""From text to definitions: every statement is checked, and all problems are reported at once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from analytics_enabler.limits import MOST_NAME
from analytics_enabler.semantics.aggregates import stream_of
from analytics_enabler.semantics.computed import refusals
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.insights import define
from analytics_enabler.semantics.scopes import leaves
from analytics_enabler.semantics.sites import Sites, demanded_site
from grammar import ParseError, Problem, Script, ast, parse


@dataclass(frozen=True, slots=True)
class Checked:
    """The insights of a text, none unless it is free of errors, and the problems found."""

    definitions: tuple[Definition, ...]
    problems: tuple[Problem, ...]
    script: Script | None = None

    @property
    def ok(self) -> bool:
        """Whether there are no errors; warnings do not count."""
        return all(problem.severity != "error" for problem in self.problems)


def check(
    text: str,
    metrics: frozenset[str] | None = None,
    sites: Sites | None = None,
    scheduler: str = DEFAULT_SCHEDULER,
) -> Checked:
    """Say what a text means.

    ``metrics`` are those that points have come of, and ``sites`` those that there are, for
    warnings; None where that is not known. Insights that name no scheduler are placed by
    ``scheduler``.
    """
    try:
        script = parse(text)
    except ParseError as error:
        return Checked((), error.problems)
    findings = Findings()
    _check_names(script, findings)
    insights = list(_computed(script, findings))
    definitions = tuple(define(insight, findings, scheduler) for insight in insights)
    if sites is not None:
        _look_up_sites(insights, definitions, sites, findings)
    if metrics is not None:
        _look_up_metrics(insights, metrics, findings)
    problems = tuple(sorted(findings.problems, key=lambda p: (p.line, p.column)))
    checked = Checked(definitions, problems, script)
    return checked if checked.ok else replace(checked, definitions=())


def _check_names(script: Script, findings: Findings) -> None:
    seen: Counter[str] = Counter()
    for insight in script.statements:
        if not isinstance(insight, ast.Insight):
            continue
        seen[insight.name] += 1
        if seen[insight.name] == 2:
            findings.error(
                beginning(insight.span, len(insight.name)),
                f"there are two insights named `{insight.name}`",
                "Give each insight of a submission a name of its own.",
            )
        if len(insight.name) > MOST_NAME:
            findings.error(
                beginning(insight.span, len(insight.name)),
                f"this name has {len(insight.name)} characters",
                f"Choose one of at most {MOST_NAME}.",
            )


def _computed(script: Script, findings: Findings) -> Iterator[ast.Insight]:
    """Yield the insights that are computed, and say what is not computed of the others."""
    functions = (each for each in script.statements if isinstance(each, ast.FunctionDefinition))
    own = frozenset(function.name for function in functions)
    for statement in script.statements:
        refused = list(refusals(statement, own))
        for refusal in refused:
            findings.error(refusal.span, f"{refusal.what} is not computed yet", refusal.hint)
        if isinstance(statement, ast.Insight) and not refused:
            yield statement


def _look_up_metrics(
    insights: list[ast.Insight], metrics: frozenset[str], findings: Findings
) -> None:
    """Warn of each metric that is not known, once, where it is named first."""
    seen = set(metrics)
    for stream in _streams(insights):
        if stream.metric not in seen:
            seen.add(stream.metric)
            near = nearest(stream.metric, metrics)
            findings.warning(
                beginning(stream.span, len(stream.metric)),
                f"no point of the metric `{stream.metric}` has come yet; its insights wait for one",
                did_you_mean(near) if near else "Check that a source sends it under this name.",
            )


def _look_up_sites(
    insights: list[ast.Insight],
    definitions: tuple[Definition, ...],
    sites: Sites,
    findings: Findings,
) -> None:
    for insight, definition in zip(insights, definitions, strict=True):
        site = demanded_site(definition, sites)
        if site is None or site in sites.names:
            continue
        near = nearest(site, sites.names)
        findings.warning(
            beginning(insight.span, len(insight.name)),
            f"there is no site `{site}`: `{insight.name}` is computed over all sites",
            did_you_mean(near) if near else f"There are {', '.join(sorted(sites.names))}.",
        )


def _streams(insights: list[ast.Insight]) -> Iterator[ast.MetricStream]:
    for insight in insights:
        parts = (insight.expression, *([insight.when] if insight.when is not None else []))
        for leaf in chain.from_iterable(map(leaves, parts)):
            if isinstance(leaf, ast.Call):
                yield stream_of(leaf)
