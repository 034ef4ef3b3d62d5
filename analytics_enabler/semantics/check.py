"""From text to definitions: every statement is checked, and all problems are reported at once."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from analytics_enabler.limits import MOST_NAME
from analytics_enabler.semantics.apart import check_apart
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
        return _checked(text, _Known(scheduler, metrics, schemas or {}), sites, deployed)
    except RecursionError:  # what bounds the levels of a text did not foresee this one
        hint = "Make the deepest of its insights several, which refer to each other."
        return Checked((), (Problem(1, 1, 0, "an insight here is too deep to be checked", hint),))


def _checked(text: str, known: _Known, sites: Sites | None, deployed: Deployed | None) -> Checked:
    try:
        script = parse(text)
    except ParseError as error:
        return Checked((), _all_problems(error, known, sites, deployed))
    findings = Findings()
    definitions = _understand(script, known, sites, References(findings, deployed), findings)
    checked = Checked(definitions, _told(findings.problems), script)
    return checked if checked.ok else replace(checked, definitions=())


def _all_problems(
    error: ParseError, known: _Known, sites: Sites | None, deployed: Deployed | None
) -> tuple[Problem, ...]:
    """Return what is wrong with a text that does not parse, in its sound statements too.

    Nothing is said of what uses a name that the others may define. Nor are warnings told: some
    would be of what those use or mean.
    """
    if error.rest is None:
        return error.problems
    findings = Findings()
    references = References(findings, deployed)
    script, broken = Script(error.rest.statements), error.rest.names
    for name in broken - {each.name for each in script.statements if isinstance(each, ast.Insight)}:
        references.add(name, None)
    _understand(script, known, sites, references, findings, broken)
    errors = (problem for problem in findings.problems if problem.severity == "error")
    return _told((*error.problems, *errors))


def _told(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    # What is wrong with a function's body, each of its calls tells.
    return tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.line, p.column)))


def _understand(
    script: Script,
    known: _Known,
    sites: Sites | None,
    references: References,
    findings: Findings,
    broken: frozenset[str] | None = None,
) -> tuple[Definition, ...]:
    """Return what the insights of a script mean, as far as they mean anything.

    ``broken`` are names that other statements of its text may define, which do not parse; None
    where all do.
    """
    _check_names(script, findings)
    insights = expanded(script, known.schemas, findings, broken or frozenset())
    if not insights and broken is None:
        hint = "Add one that uses what is defined here."
        findings.error(beginning(script.span, 0), "there is no insight in this text", hint)
    defined = _define(insights, references, findings, known)
    found = sorted(defined, key=lambda pair: pair[0].span.offset)
    if sites is not None:
        _look_up_sites(found, sites, findings)
    if known.metrics is not None:
        of_storage = [insight for insight, definition in found if definition.feed is None]
        _look_up_metrics(of_storage, known.metrics, findings)
    return tuple(definition for _, definition in found)


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
            check_apart(plain, context.metrics_of(feeds[written.name]), references, findings)
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
