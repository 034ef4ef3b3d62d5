"""STREAM definitions: which points each is, and metrics FROM them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from analytics_enabler.semantics.feeds import Schemas, check_columns, feed_of, taken
from analytics_enabler.semantics.findings import Findings, beginning, did_you_mean, nearest
from analytics_enabler.semantics.trees import all_of, any_of, rebuilt, walk
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


@dataclass(frozen=True, slots=True)
class Streams:
    """The STREAM definitions of a text: what their points satisfy, None where that is unknown.

    A stream without conditions is that of all points. ``feeds`` are those that are not of storage.
    """

    conditions: Mapping[str, tuple[ast.Condition, ...] | None]
    feeds: Mapping[str, Feed]

    def resolved(
        self, insight: ast.Insight, findings: Findings
    ) -> tuple[ast.Insight, Feed | None] | None:
        """Return an insight in which FROM takes entities only, and the feed that it reads, if any.

        None where a stream means nothing, or does not go with others.
        """
        found = taken(insight, self.feeds, findings)
        if found is None:
            return None
        plain = self._of_storage(found[0])
        return None if plain is None else (plain, found[1])

    def _of_storage(self, insight: ast.Insight) -> ast.Insight | None:
        if not self.conditions:
            return insight
        used = (each for each in walk(insight) if isinstance(each, ast.MetricStream))
        members = [member for stream in used for member in stream.members]
        if any(self.conditions.get(member, ()) is None for member in members):
            return None
        return rebuilt(insight, self._resolve)

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
        if not terms:
            return ast.Name(node.metric, span=node.span)
        return replace(node, members=(), when=all_of(terms))


def members_in(*nodes: ast.Node) -> frozenset[str]:
    """Return the names that metrics are FROM, anywhere in these trees."""
    streams = (each for each in chain(*map(walk, nodes)) if isinstance(each, ast.MetricStream))
    return frozenset(member for stream in streams for member in stream.members)


def streams_of(
    script: Script, used: frozenset[str], schemas: Schemas, findings: Findings
) -> Streams:
    """Return what a text defines as streams, and say what is wrong with that.

    ``used``: the names that metrics are FROM. ``schemas`` tell the columns of feeds.
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
