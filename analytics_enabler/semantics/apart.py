"""What is wrong with an insight, whatever the insights are that it refers to."""

from collections.abc import Iterator
from dataclasses import replace

from analytics_enabler.semantics.adaptive import adapted
from analytics_enabler.semantics.aggregates import Aggregates
from analytics_enabler.semantics.allowed import with_allowed
from analytics_enabler.semantics.current import with_current
from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.named import read_by
from analytics_enabler.semantics.options import options_of, scheduler_of
from analytics_enabler.semantics.pace import pace_of
from analytics_enabler.semantics.parameters import outliers_of
from analytics_enabler.semantics.references import References
from analytics_enabler.semantics.sampling import sampled, sampling_of
from analytics_enabler.semantics.trees import parts
from analytics_enabler.semantics.values import Values
from grammar import ast
from mistbow.plan.attributes import canonical

_Value = ast.Call | ast.Scoped | ast.MetricStream
_Part = tuple[_Value, tuple[str, ...]]


def check_apart(
    insight: ast.Insight,
    metrics: frozenset[str] | None,
    references: References,
    findings: Findings,
) -> None:
    """Say what is wrong with an insight some of whose references mean nothing.

    What the keys and values of these decide is left out: that would tell of what is not so.
    """
    with_allowed(insight, findings)
    pace = pace_of(insight, (), findings)
    aggregates = Aggregates(findings, (), pace.every_ms, None, pace.each_point, pace.at)
    values = Values(aggregates, references, outliers_of(insight, findings))
    known = (metrics or frozenset()) | {stream.metric for stream in read_by(insight)}
    found: list[_Part] = []
    _refers(insight, (), found)
    before = findings.errors
    meant = []
    for part, by in found:
        alone = replace(insight, expression=part, by=by, when=None)
        alone = with_current(alone, known, references, findings)
        keys = tuple(dict.fromkeys(map(canonical, by)))
        inner = replace(values, aggregates=replace(aggregates, by=keys))
        if isinstance(alone.expression, _Value):
            meant.append(inner.translate(alone.expression))
    if findings.errors > before:
        meant = []  # not to tell of what only stands in for what is wrong
    adapted(meant, insight, findings)
    sampling = sampling_of(insight, findings)
    if sampling is not None:
        sampled(meant, sampling, insight, findings)
    scheduler_of(insight, findings)
    options_of(insight, findings)


def _refers(node: ast.Node, by: tuple[str, ...], found: list[_Part]) -> bool:
    """Return whether there is a reference in a tree that has these keys around it.

    If so, the largest values in it without one are ``found``, with the keys around them.
    """
    inner = (*by, *node.by) if isinstance(node, ast.Insight | ast.Scoped) else by
    below = parts(node)
    free = [part for part in below if not _refers(part, inner, found)]
    if len(free) == len(below) and not isinstance(node, ast.InsightReference):
        return False
    found.extend((value, inner) for part in free for value in _values(part))
    return True


def _values(node: ast.Node) -> Iterator[_Value]:
    if isinstance(node, _Value):
        yield node
        return
    for part in parts(node):
        yield from _values(part)
