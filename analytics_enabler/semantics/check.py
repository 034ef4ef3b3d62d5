"""From text to definitions: every statement is checked, and all problems are reported at once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from analytics_enabler.limits import MOST_NAME
from analytics_enabler.semantics.computed import refusals
from analytics_enabler.semantics.current import with_current
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.expansion import Meant, expanded
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.insights import define
from analytics_enabler.semantics.named import read_by
from analytics_enabler.semantics.references import Deployed, References
from analytics_enabler.semantics.sites import Sites, demanded_site
from grammar import ParseError, Problem, Script, ast, format_statement, parse


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
    deployed: Deployed | None = None,
) -> Checked:
    """Say what a text means.

    ``metrics`` are those that points have come of, and ``sites`` those that there are, for
    warnings; ``deployed`` are the insights that run, which others may refer to; None where that is
    not known. Insights that name no scheduler are placed by ``scheduler``.
    """
    try:
        script = parse(text)
    except ParseError as error:
        return Checked((), error.problems)
    findings = Findings()
    _check_names(script, findings)
    references = References(findings, deployed)
    meant = _computed(script, findings)
    found = sorted(
        _define(meant, references, findings, scheduler, metrics),
        key=lambda pair: pair[0].span.offset,
    )
    insights = [insight for insight, _ in found]
    definitions = tuple(definition for _, definition in found)
    if sites is not None:
        _look_up_sites(insights, definitions, sites, findings)
    if metrics is not None:
        _look_up_metrics(insights, metrics, findings)
    # What is wrong with a function's body, each of its calls tells.
    told = dict.fromkeys(findings.problems)
    problems = tuple(sorted(told, key=lambda p: (p.line, p.column)))
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


def _computed(script: Script, findings: Findings) -> list[Meant]:
    """Return the insights, and say what of the text is not computed."""
    for statement in script.statements:
        if isinstance(statement, ast.StreamDefinition):
            _refused(statement, findings)
    insights = expanded(script, findings)
    if not insights:
        hint = "Add one that uses what is defined here."
        findings.error(beginning(script.span, 0), "there is no insight in this text", hint)
    return [
        replace(each, plain=None) if each.plain and _refused(each.plain, findings) else each
        for each in insights
    ]


def _refused(statement: ast.Statement, findings: Findings) -> bool:
    refused = list(refusals(statement))
    for refusal in refused:
        findings.error(refusal.span, f"{refusal.what} is not computed yet", refusal.hint)
    return bool(refused)


def _define(
    insights: list[Meant],
    references: References,
    findings: Findings,
    scheduler: str,
    metrics: frozenset[str] | None,
) -> Iterator[tuple[ast.Insight, Definition]]:
    """Yield the insights that mean something, each behind those that it refers to."""
    for each in insights:
        if each.plain is None:
            references.add(each.written.name, None)
    for written, plain in references.in_order(insights):
        known = findings.errors
        if not references.look_up(plain):
            references.add(plain.name, None)
            continue
        meant = with_current(plain, metrics, references, findings)
        # Its text is as the user wrote it; its meaning stands by itself, without what that names.
        definition = define(meant, format_statement(written), findings, scheduler, references)
        sound = findings.errors == known and references.check_depth(plain, definition)
        references.add(plain.name, definition if sound else None)
        yield meant, definition


def _look_up_metrics(
    insights: list[ast.Insight], metrics: frozenset[str], findings: Findings
) -> None:
    """Warn of each metric that is not known, once, where it is named first."""
    seen = set(metrics)
    for stream in chain.from_iterable(map(read_by, insights)):
        metric = stream.metric
        if metric not in seen:
            seen.add(metric)
            near = findings.nearest(metric, metrics)
            findings.warning(
                beginning(stream.span, len(metric)),
                f"no point of the metric `{metric}` has come yet; its insights wait for one",
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
