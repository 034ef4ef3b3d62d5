"""STREAM definitions: which points each is, and metrics FROM them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from analytics_enabler.limits import MOST_NODES_OF_STREAMS
from analytics_enabler.semantics.feeds import Schemas, check_columns, feed_of, taken
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.trees import all_of, any_of, extent, rebuilt, walk
from grammar import Script, ast
from mistbow.plan.attributes import canonical
from mistbow.plan.feeds import Feed

PROVIDERS = ("storage", "stream")

_PLURALS = {
    "nodes": "node",
    "sites": "site",
    "regions": "region",
    "entities": "entityID",
    "entitytypes": "entityType",
    "groups": "group",
}
_ATTRIBUTES = ("node", "site", "region", "entity", "entityID", "entityType", "group")


@dataclass(slots=True)
class Streams:
    """The STREAM definitions of a text: what their points satisfy, None where that is unknown.

    A stream without conditions is that of all points. ``feeds`` are those that are not of storage.
    """

    conditions: Mapping[str, tuple[ast.Condition, ...] | None]
    feeds: Mapping[str, Feed]
    _sizes: dict[str, int] = field(default_factory=dict)
    _in_all: int = 0

    def resolved(
        self, insight: ast.Insight, findings: Findings
    ) -> tuple[ast.Insight, Feed | None] | None:
        """Return an insight in which FROM takes entities only, and the feed that it reads, if any.

        None where a stream means nothing, or does not go with others.
        """
        # First of all: what means nothing goes with others or not, nobody knows.
        if self.conditions and any(self.conditions.get(m, ()) is None for m in members_in(insight)):
            return None
        found = taken(insight, self.feeds, findings)
        if found is None or not self.conditions:
            return found
        if self._makes_too_much(found[0], findings):
            return None
        return rebuilt(found[0], self._resolve), found[1]

    def _makes_too_much(self, insight: ast.Insight, findings: Findings) -> bool:
        """Count what an insight takes FROM streams, and refuse it where that is too much."""
        taken_from = (each for each in walk(insight) if isinstance(each, ast.MetricStream))
        self._in_all += sum(self._size(name) for each in taken_from for name in each.members)
        if self._in_all <= MOST_NODES_OF_STREAMS:
            return False
        findings.error(
            beginning(insight.span, len(insight.name)),
            f"what this text takes FROM streams is over {MOST_NODES_OF_STREAMS:,} parts",
            "Name fewer values in the streams, or submit the insights in several texts.",
        )
        return True

    def _size(self, name: str) -> int:
        """Return how many nodes come of taking a metric FROM a stream; none of an entity."""
        if name not in self._sizes:
            conditions = self.conditions.get(name) or ()
            self._sizes[name] = sum(extent(each, MOST_NODES_OF_STREAMS)[0] for each in conditions)
        return self._sizes[name]

    def _resolve(self, node: ast.Node) -> ast.Node:
        node = rebuilt(node, self._resolve)
        if not isinstance(node, ast.MetricStream):
            return node
        streams = [self.conditions[member] or () for member in node.members
                   if member in self.conditions]  # fmt: skip
        if not streams:
            return node
        entities = [member for member in node.members if member not in self.conditions]
        sources = [all_of(each) for each in streams if each]
        if len(sources) < len(streams):  # one of them is that of all points
            sources, entities = [], []
        if entities:
            members = tuple(ast.Text(entity, span=node.span) for entity in entities)
            sources.append(_membership("entityID", members, node.span))
        terms = [any_of(sources)] if sources else []
        terms += [] if node.when is None else [node.when]
        # Not its name alone, which might be an attribute's in a condition.
        return replace(node, members=(), when=all_of(terms) if terms else None)


def members_in(*nodes: ast.Node) -> frozenset[str]:
    """Return the names that metrics are FROM, anywhere in these trees."""
    streams = (each for each in chain(*map(walk, nodes)) if isinstance(each, ast.MetricStream))
    return frozenset(member for stream in streams for member in stream.members)


def streams_of(
    script: Script,
    used: frozenset[str],
    schemas: Schemas,
    findings: Findings,
    broken: frozenset[str] = frozenset(),
) -> Streams:
    """Return what a text defines as streams, and say what is wrong with that.

    ``used``: the names that metrics are FROM. ``schemas`` tell the columns of feeds. ``broken`` are
    names of what the text may define too, but wrongly.
    """
    feeds: dict[str, Feed] = {}
    conditions: dict[str, tuple[ast.Condition, ...] | None] = {}
    for each in script.statements:
        if not isinstance(each, ast.StreamDefinition):
            continue
        head = beginning(each.span, len(each.name))
        if each.name in conditions or each.name in feeds:
            hint = "Give each stream of a submission a name of its own."
            findings.error(head, f"there are two streams `{each.name}`", hint)
        elif each.name not in used:
            hint = f"Take a metric from it, as in `cpu FROM ({each.name})`, or remove it."
            findings.warning(head, f"nothing is taken from the stream `{each.name}`", hint)
        feed = feed_of(each, findings)
        if feed is not None:
            _check_keys(each, "stream", findings)
            check_columns(each, feed, schemas, findings)
            feeds.setdefault(each.name, feed)
        else:
            conditions.setdefault(each.name, _conditions(each, findings))
    conditions.update(dict.fromkeys(broken - conditions.keys() - feeds.keys()))
    return Streams(conditions, feeds)


def _conditions(
    definition: ast.StreamDefinition, findings: Findings
) -> tuple[ast.Condition, ...] | None:
    known = findings.errors
    provider = definition.provider.lower()
    if provider not in PROVIDERS:
        near = nearest(provider, PROVIDERS)
        findings.error(
            definition.span,
            f"there is no provider `{definition.provider}`",
            did_you_mean(near) if near else f"There are {', '.join(PROVIDERS)}.",
        )
    _check_keys(definition, provider, findings)
    if findings.errors > known or provider != "storage":
        return None
    return tuple(
        _membership(_key(setting), setting.values, setting.span) for setting in definition.settings
    )


def _key(setting: ast.Setting) -> str:
    """Return the attribute that a filter of storage is on, which may be named in the plural."""
    return canonical(_PLURALS.get(setting.key.lower(), setting.key))


def _check_keys(definition: ast.StreamDefinition, provider: str, findings: Findings) -> None:
    """Say which settings are given twice, or do not go with the provider."""
    seen: set[str] = set()
    for setting in definition.settings:
        key = _key(setting) if provider == "storage" else canonical(setting.key)
        if key in seen:
            several = provider == "storage" or key == "attributes"
            hint = f'List all its values: `{setting.key}=("a", "b")`.'
            hint = hint if several else "Leave one of them out."
            findings.error(setting.span, f"`{setting.key}` is given twice", hint)
        seen.add(key)
        near = nearest(setting.key, _ATTRIBUTES)
        if provider == "storage" and near and key not in _ATTRIBUTES:
            message = f"`{setting.key}` is taken for a label of points and nodes"
            findings.warning(setting.span, message, did_you_mean(near))


def _membership(key: str, values: tuple[ast.Value, ...], span: ast.Span) -> ast.Condition:
    return ast.Membership(ast.Name(key, span=span), values, span=span)
