"""From text to definitions: every statement is checked, and all problems are reported at once."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from analytics_enabler.limits import MOST_NAME
from analytics_enabler.semantics.current import with_current
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.expansion import Meant, expanded
from analytics_enabler.semantics.fed import (
    check_feed,
    check_site,
    feed_with_references,
    known_attributes,
    known_metrics,
)
from analytics_enabler.semantics.feeds import Schemas
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.insights import define
from analytics_enabler.semantics.named import read_by
from analytics_enabler.semantics.references import Deployed, References
from analytics_enabler.semantics.sites import Sites, demanded_site
from analytics_enabler.semantics.unknown import warn_of_attributes
from grammar import ParseError, Problem, Script, ast, format_statement, parse
from mistbow.plan.feeds import Feed


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
    schemas: Schemas | None = None,
) -> Checked:
    """Say what a text means.

    ``metrics`` are those that points have come of, and ``sites`` those that there are, for
    warnings; ``deployed`` are the insights that run, which others may refer to; None where that is
    not known. ``schemas`` are those of feeds, as far as they are known. Insights that name no
    scheduler are placed by ``scheduler``.
    """
    try:
        script = parse(text)
    except ParseError as error:
        return Checked((), error.problems)
    findings = Findings()
    schemas = schemas or {}
    _check_names(script, findings)
    references = References(findings, deployed)
    known = _Known(scheduler, metrics, schemas)
    defined = _define(_meant(script, schemas, findings), references, findings, known)
    found = sorted(defined, key=lambda pair: pair[0].span.offset)
    definitions = tuple(definition for _, definition in found)
    if sites is not None:
        _look_up_sites(found, sites, findings)
    if metrics is not None:
        of_storage = [insight for insight, definition in found if definition.feed is None]
        _look_up_metrics(of_storage, metrics, findings)
    # What is wrong with a function's body, each of its calls tells.
    told = dict.fromkeys(findings.problems)
    problems = tuple(sorted(told, key=lambda p: (p.line, p.column)))
    checked = Checked(definitions, problems, script)
    return checked if checked.ok else replace(checked, definitions=())


@dataclass(frozen=True, slots=True)
class _Known:
    """What insights are defined by, beside their text; see ``check``."""

    scheduler: str
    metrics: frozenset[str] | None
    schemas: Schemas

    def metrics_of(self, feed: Feed | None) -> frozenset[str] | None:
        """Return the metrics that there are, None where that is not known."""
        return self.metrics if feed is None else known_metrics(feed, self.schemas)

    def attributes_of(self, feed: Feed | None) -> frozenset[str]:
        """Return the attributes that points are known to have."""
        return frozenset() if feed is None else known_attributes(feed, self.schemas) or frozenset()


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


def _meant(script: Script, schemas: Schemas, findings: Findings) -> list[Meant]:
    insights = expanded(script, schemas, findings)
    if not insights:
        hint = "Add one that uses what is defined here."
        findings.error(beginning(script.span, 0), "there is no insight in this text", hint)
    return insights


def _define(
    insights: list[Meant], references: References, findings: Findings, context: _Known
) -> Iterator[tuple[ast.Insight, Definition]]:
    """Yield the insights that mean something, each behind those that it refers to."""
    for each in insights:
        if each.plain is None:
            references.add(each.written.name, None)
    feeds = {each.written.name: each.feed for each in insights}
    for written, plain in references.in_order(insights):
        known = findings.errors
        if not references.look_up(plain):
            references.add(plain.name, None)
            continue
        feed = feed_with_references(plain, feeds[written.name], references, findings)
        metrics = context.metrics_of(feed)
        attributes = context.attributes_of(feed)
        meant = with_current(plain, metrics, references, findings, attributes)
        if metrics is not None:
            warn_of_attributes(meant, metrics, references, findings)
        # Its text is as the user wrote it; its meaning stands by itself, without what that names.
        text = format_statement(written)
        definition = define(meant, text, findings, context.scheduler, references)
        if feed is not None:
            check_feed(meant, feed, metrics, context.schemas, findings)
            definition = msgspec.structs.replace(definition, feed=feed)
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
    found: list[tuple[ast.Insight, Definition]], sites: Sites, findings: Findings
) -> None:
    for insight, definition in found:
        if definition.feed is not None:
            check_site(insight, definition.feed, sites, findings)
            continue
        site = demanded_site(definition, sites)
        if site is None or site in sites.names:
            continue
        near = nearest(site, sites.names)
        findings.warning(
            beginning(insight.span, len(insight.name)),
            f"there is no site `{site}`: `{insight.name}` is computed over all sites",
            did_you_mean(near) if near else f"There are {', '.join(sorted(sites.names))}.",
        )
