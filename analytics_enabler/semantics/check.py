"""The pipeline of the semantic check: parse → expand → bind → check → lower.

Texts with syntax errors or unresolved references pass through the same pipeline: the ``Unresolved``
nodes suppress errors that only follow from another error.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from analytics.plan.attributes import canonical, is_of_all_points
from analytics.plan.feeds import Feed
from analytics_enabler.limits import MAX_NAME_CHARACTERS
from analytics_enabler.semantics.bind.bind import bind
from analytics_enabler.semantics.bind.bound_tree import BoundInsight, PointSource
from analytics_enabler.semantics.bind.names import metrics_read, possible_metrics
from analytics_enabler.semantics.bind.point_schema import PointSchema, sources
from analytics_enabler.semantics.bind.references import (
    Deployed,
    InsightTable,
    check_depth,
    in_dependency_order,
)
from analytics_enabler.semantics.bind.values import Symbols
from analytics_enabler.semantics.checks import Context, check_insight, check_points
from analytics_enabler.semantics.checks.context import Points, Values
from analytics_enabler.semantics.checks.feeds import point_schema
from analytics_enabler.semantics.definition import DEFAULT_SCHEDULER, Definition
from analytics_enabler.semantics.diagnostics import (
    Diagnostics,
    Suggestions,
    did_you_mean,
    error,
    head,
    nearest,
    warning,
)
from analytics_enabler.semantics.expand.bare_texts import (
    KnownNames,
    has_bare_names,
    resolve_texts,
)
from analytics_enabler.semantics.expand.expansion import ExpandedInsight, expand
from analytics_enabler.semantics.expand.feeds import Schemas, StreamName, feed_streams, origin
from analytics_enabler.semantics.lower.lower import lower
from analytics_enabler.semantics.sites import Sites, demanded_site
from grammar import Diagnostic, ParseError, Script, ast, format_statement, parse

_ATTRIBUTE_HINT = (
    "If the attribute is meant, name a metric in WHEN, as in `COMPUTE {0} WHEN cpu > 90`, or in a "
    "function, as in `COUNT(AVG(cpu, 1 MINUTE) BY {0})`."
)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The result of parsing a text: the valid statements, and the syntax errors (``problems``).

    ``script``: the syntax tree of the text; None if the text has a syntax error. ``broken``: the
    names that the statements with syntax errors may define; None: these names are unknown.
    """

    statements: tuple[ast.Statement, ...]
    problems: tuple[Diagnostic, ...] = ()
    script: Script | None = None
    broken: frozenset[str] | None = frozenset()

    @property
    def feed_streams(self) -> frozenset[StreamName]:
        """The streams that STREAM definitions in the text read as feeds: (site, stream) pairs."""
        return feed_streams(self.statements)

    @property
    def has_bare_names(self) -> bool:
        """Whether the attributes of points decide what a bare name in a condition means."""
        return has_bare_names(self.statements)

    @property
    def possible_metrics(self) -> frozenset[str]:
        """The names in the text that may mean metrics."""
        return possible_metrics(self.statements)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a text: its diagnostics (``problems``) and its definitions.

    ``definitions``: empty if the text has an error. ``script``: the syntax tree of the text; None
    if the text has a syntax error or is nested too deeply.
    """

    definitions: tuple[Definition, ...]
    problems: tuple[Diagnostic, ...]
    script: Script | None = None

    @property
    def ok(self) -> bool:
        """Whether the text has no errors; the text may have warnings."""
        return all(problem.severity != "error" for problem in self.problems)


def parse_text(text: str) -> ParsedText:
    """Parse a text; return its valid statements and its syntax errors."""
    try:
        script = parse(text)
    except ParseError as failure:
        if failure.partial is None:
            return ParsedText((), failure.problems, broken=None)
        return ParsedText(
            failure.partial.statements, failure.problems, broken=failure.partial.names
        )
    return ParsedText(script.statements, script=script)


def check(
    text: str | ParsedText,
    metrics: frozenset[str] | None = None,
    sites: Sites | None = None,
    scheduler: str = DEFAULT_SCHEDULER,
    deployed: Deployed | None = None,
    schemas: Schemas | None = None,
    attributes: frozenset[str] | None = None,
    values: Values | None = None,
    points: Points | None = None,
    units: Mapping[str, str] | None = None,
) -> Checked:
    """Check a text; return its diagnostics and, if the text has no errors, its definitions.

    ``metrics``: the metrics that have points, for warnings. ``sites``: the sites in the fabric, for
    warnings. ``deployed``: the running insights, to which the text may refer. These three arguments
    are None if unknown. ``schemas``: stream -> columns, for the streams that feeds read; streams
    with unknown columns are omitted. ``scheduler``: the scheduler of insights that name no
    scheduler. ``attributes``: the attributes that points have; bare names in comparisons that are
    neither metrics nor attributes are texts. ``values``: the values that attributes of recent
    points have, for warnings. ``points``: metric -> the attributes of its recent points, and
    ``units``: metric -> unit, both for warnings.
    """
    try:
        parsed = parse_text(text) if isinstance(text, str) else text
        context = Context(
            metrics, schemas or {}, sites, Suggestions(), values or {}, attributes,
            points or {}, units or {},
        )  # fmt: skip
        names = KnownNames(metrics, attributes)
        return _Check(parsed, context, scheduler, deployed, names).run()
    except RecursionError:  # the bounds on levels failed to predict the depth of the stack
        hint = "Divide this insight into several insights that refer to each other."
        problem = Diagnostic(1, 1, 0, "an insight of this text is nested too deeply", hint)
        return Checked((), (problem,))


@dataclass(frozen=True, slots=True)
class _Check:
    """The check of one text, with the diagnostics found so far."""

    parsed: ParsedText
    context: Context
    scheduler: str
    deployed: Deployed | None
    names: KnownNames
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def run(self) -> Checked:
        """Return the diagnostics of the text and, if the text has no errors, its definitions."""
        if self.parsed.broken is None:
            return Checked((), self.parsed.problems)
        bound = self._statements(self.parsed.broken)
        if self.parsed.script is None:
            # Warnings might be about what the broken statements mean.
            errors = (each for each in self.diagnostics.problems if each.severity == "error")
            return Checked((), _in_text_order((*self.parsed.problems, *errors)))
        pairs = sorted(bound, key=lambda pair: pair[0].span.offset)
        self.diagnostics.extend(_check_metrics([insight for insight, _ in pairs], self.context))
        self.diagnostics.extend(_check_sites(pairs, self.context.sites))
        problems = _in_text_order(self.diagnostics.problems)
        checked = Checked((), problems, self.parsed.script)
        definitions = tuple(definition for _, definition in pairs if definition is not None)
        return replace(checked, definitions=definitions) if checked.ok else checked

    def _statements(self, broken: frozenset[str]) -> list[tuple[BoundInsight, Definition | None]]:
        """Return (bound insight, definition) pairs; the definition is None after an error.

        ``broken``: the names that statements with syntax errors may define.
        """
        script = resolve_texts(Script(self.parsed.statements), self.names, self.diagnostics)
        self.diagnostics.extend(_check_names(script))
        suggestions = self.context.suggestions
        insights = expand(script, self.context.schemas, self.diagnostics, suggestions, broken)
        if not insights and self.parsed.script is not None:
            hint = "Add an insight that uses these definitions."
            span = head(self.parsed.script.span, 0)
            self.diagnostics.error(span, "there is no insight in this text", hint)
        table = InsightTable(self.deployed, suggestions)
        defined = {
            each.name for each in script.statements if isinstance(each, ast.InsightStatement)
        }
        for name in (broken - defined) | {i.written.name for i in insights if i.expansion is None}:
            table.add(name, None)
        pairs = in_dependency_order(insights, table, self.diagnostics)
        return [self._insight(each, plain, table) for each, plain in pairs]

    def _insight(
        self, expanded: ExpandedInsight, insight: ast.InsightStatement, table: InsightTable
    ) -> tuple[BoundInsight, Definition | None]:
        """Return (bound insight, definition) of an insight, and add the definition to ``table``.

        The definition is None after an error.
        """
        found = Diagnostics()
        symbols = table.resolve(insight, expanded.references, found)
        feed = _feed(insight, expanded, symbols, found)
        context = self.context
        points = PointSchema(context.metrics, self.names.attributes or frozenset())
        if feed is not None:
            points = point_schema(feed, context.schemas)
            context = replace(context, metrics=points.metrics)
        bound = bind(insight, feed, points, symbols, found, context.suggestions, expanded.computed)
        found.extend(check_insight(bound, context))
        if not found.has_errors:
            found.extend(check_points(bound))
        definition = None
        if not found.has_errors and None not in symbols.values():
            definition = lower(bound, format_statement(expanded.written), self.scheduler)
            if symbols:
                check_depth(insight, definition, found)
        self.diagnostics.extend(found.problems)
        table.add(insight.name, None if found.has_errors else definition)
        return bound, definition


def _feed(
    insight: ast.InsightStatement,
    expanded: ExpandedInsight,
    symbols: Symbols,
    diagnostics: Diagnostics,
) -> Feed | None:
    """Return the feed whose points an insight reads, directly or by INSIGHT; None for storage.

    If the insight reads several feeds, or both a feed and storage, report an error and return the
    first of these.
    """
    reads = next(metrics_read(insight), None) is not None
    found = {expanded.feed: None} if reads else {}
    for node in expanded.references:
        symbol = symbols[node.name]
        if symbol is None:
            continue
        found[symbol.definition.feed] = None
        if len(found) > 1:
            one, other = list(found)[:2]
            diagnostics.error(
                node.span,
                f"`{node.name}` reads {origin(other)}, but the rest of the insight "
                f"reads {origin(one)}",
                "Divide the insight: each insight can read only one of the two.",
            )
            break
    return next(iter(found), None)


def _in_text_order(problems: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    # Each call of a function repeats the errors of the function's body.
    return tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.line, p.column)))


def _check_names(script: Script) -> Iterator[Diagnostic]:
    seen: Counter[str] = Counter()
    for insight in script.statements:
        if not isinstance(insight, ast.InsightStatement):
            continue
        seen[insight.name] += 1
        span = head(insight.span, len(insight.name))
        if seen[insight.name] == 2:
            message = f"there are two insights named `{insight.name}`"
            yield error(span, message, "Give each insight of a submission a name of its own.")
        if len(insight.name) > MAX_NAME_CHARACTERS:
            message = f"this name has {len(insight.name)} characters"
            yield error(
                span, message, f"Choose a name of at most {MAX_NAME_CHARACTERS} characters."
            )


def _check_metrics(insights: Collection[BoundInsight], context: Context) -> Iterator[Diagnostic]:
    """Yield a warning for each metric without points, at the first use of the metric.

    Metrics of feeds are omitted.
    """
    if context.metrics is None:
        return
    seen = set(context.metrics)
    names = {insight.syntax.name for insight in insights}
    for insight in insights:
        # The operands of an unknown function may be anything.
        unclear = {id(node) for each in insight.unresolved for node in sources(each)}
        for source in insight.sources if insight.feed is None else ():
            if id(source) in unclear:
                continue
            metric = source.metric
            if metric not in seen:
                seen.add(metric)
                if is_of_all_points(canonical(metric)):
                    yield _attribute_without_metric(source)
                    continue
                near = context.suggestions.nearest(metric, context.metrics)
                hint = did_you_mean(near) if near else "Check that a source sends this name."
                if metric in (context.attributes or ()):
                    hint = _ATTRIBUTE_HINT.format(metric)
                if metric in names:
                    hint = f"If the insight of this name is meant, write `INSIGHT {metric}`."
                yield warning(
                    head(source.span, len(metric)),
                    f"no point of the metric `{metric}` has arrived yet; "
                    "insights that read it have no results until then",
                    hint,
                )


def _attribute_without_metric(source: PointSource) -> Diagnostic:
    return error(
        head(source.span, len(source.metric)),
        f"`{source.metric}` is an attribute of points, and no metric has this name",
        _ATTRIBUTE_HINT.format(source.metric),
    )


def _check_sites(
    pairs: Iterable[tuple[BoundInsight, Definition | None]], sites: Sites | None
) -> Iterator[Diagnostic]:
    """Yield a warning for each insight whose conditions require a site that does not exist."""
    for insight, definition in pairs if sites is not None else ():
        if sites is None or definition is None or insight.feed is not None:
            continue
        site = demanded_site(definition, sites)
        if site is not None and site not in sites.names:
            near = nearest(site, sites.names)
            yield warning(
                insight.head,
                f"there is no site `{site}`: `{definition.name}` is computed over all sites",
                did_you_mean(near) if near else f"The sites: {', '.join(sorted(sites.names))}.",
            )
