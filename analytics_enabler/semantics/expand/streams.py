"""STREAM definitions, and their expansion in FROM clauses."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from analytics.plan.attributes import canonical
from analytics.plan.feeds import Feed
from analytics_enabler.limits import MAX_NODES_OF_STREAMS
from analytics_enabler.semantics.diagnostics import (
    Diagnostics,
    did_you_mean,
    error,
    head,
    nearest,
    warning,
)
from analytics_enabler.semantics.expand.feeds import (
    Schemas,
    bind_feed,
    check_columns,
    without_feed,
)
from analytics_enabler.semantics.expand.positions import bind_position
from grammar import Diagnostic, Script, ast
from grammar.trees import all_of, any_of, extent, map_children, walk

PROVIDERS = ("storage", "stream", "position")

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
class StreamDefinitions:
    """The STREAM definitions in a text, by name.

    ``conditions``: stream of the provider ``storage`` -> the conditions that its points satisfy;
    None: the definition is erroneous. ``feeds``: stream of the provider ``stream`` -> its feed.
    ``positions``: stream of the provider ``position`` -> its attributes.
    """

    conditions: Mapping[str, tuple[ast.Condition, ...] | None]
    feeds: Mapping[str, Feed]
    positions: Mapping[str, ast.Position]
    _sizes: dict[str, int] = field(default_factory=dict)
    _total: int = 0

    def apply(
        self, insight: ast.InsightStatement, diagnostics: Diagnostics
    ) -> tuple[ast.InsightStatement, Feed | None] | None:
        """Return (insight with expanded STREAM names, feed that the insight reads).

        The feed is None if the insight reads storage. Return None instead of the pair if the
        insight uses an erroneous stream or streams that cannot be combined, or if the expansion is
        too large.
        """
        if self.conditions and any(
            self.conditions.get(name, ()) is None for name in stream_names(insight)
        ):
            return None
        found = without_feed(insight, self.feeds, diagnostics)
        if found is None or not (self.conditions or self.positions):
            return found
        if self._exceeds_total(found[0], diagnostics):
            return None
        return map_children(found[0], self._expand), found[1]

    def computed(self, insight: ast.InsightStatement) -> "ComputedStream | None":
        """Return the stream that an insight names after COMPUTE; None for other insights."""
        if not isinstance(insight.expression, ast.Name):
            return None
        name = insight.expression.name
        if name in self.feeds or name in self.positions:
            return ComputedStream(None)
        conditions = self.conditions.get(name)
        return None if conditions is None else ComputedStream(conditions)

    def _exceeds_total(self, insight: ast.InsightStatement, diagnostics: Diagnostics) -> bool:
        """Return whether the expanded FROM clauses of the insights so far are too large.

        Add the size of the insight's FROM clauses to the total of the text. If the total exceeds
        the limit, report an error.
        """
        metrics = (each for each in walk(insight) if isinstance(each, ast.MetricStream))
        self._total += sum(self._size(name) for each in metrics for name in each.members)
        if self._total <= MAX_NODES_OF_STREAMS:
            return False
        diagnostics.error(
            head(insight.span, len(insight.name)),
            "the streams in the FROMs of this text have over "
            f"{MAX_NODES_OF_STREAMS:,} expression nodes",
            "Name fewer values in the streams, or submit the insights in several texts.",
        )
        return True

    def _size(self, name: str) -> int:
        """Return the number of syntax nodes to which ``FROM (name)`` expands; 0 for an entity."""
        if name not in self._sizes:
            conditions = self.conditions.get(name) or ()
            self._sizes[name] = sum(extent(each, MAX_NODES_OF_STREAMS)[0] for each in conditions)
        return self._sizes[name]

    def _expand(self, node: ast.SyntaxNode) -> ast.SyntaxNode:
        match node:
            case ast.FunctionCall("GEOHASH", (ast.Name(name),)) if name in self.positions:
                return replace(node, arguments=(replace(self.positions[name], span=node.span),))
            case ast.FunctionCall("GEOHASH", (ast.MetricStream(name) as stream,)) if (
                name in self.positions
            ):
                return replace(node, arguments=(self._position(stream),))
        node = map_children(node, self._expand)
        if not isinstance(node, ast.MetricStream):
            return node
        streams = [self.conditions[member] or () for member in node.members
                   if member in self.conditions]  # fmt: skip
        if not streams:
            return node
        entities = [member for member in node.members if member not in self.conditions]
        sources = [all_of(each) for each in streams if each]
        if len(sources) < len(streams):  # one stream has all points
            sources, entities = [], []
        if entities:
            members = tuple(ast.Text(entity, span=node.span) for entity in entities)
            sources.append(_membership("entityID", members, node.span))
        terms = [any_of(sources)] if sources else []
        terms += [] if node.when is None else [node.when]
        # The node stays a MetricStream: a bare name might be an attribute in a condition.
        return replace(node, members=(), when=all_of(terms) if terms else None)

    def _position(self, stream: ast.MetricStream) -> ast.Position:
        """Return the position that a stream with FROM or WHEN names."""
        position = self.positions[stream.metric]
        points = self._expand(replace(stream, metric=position.metric))
        assert isinstance(points, ast.MetricStream)  # noqa: S101
        return replace(position, members=points.members, when=points.when, span=stream.span)


@dataclass(frozen=True, slots=True)
class ComputedStream:
    """A stream whose name stands after COMPUTE.

    ``conditions``: the conditions that its points satisfy; None: the stream has no such conditions,
    because its provider is not ``storage``.
    """

    conditions: tuple[ast.Condition, ...] | None


def stream_names(*nodes: ast.SyntaxNode) -> frozenset[str]:
    """Return the names in syntax trees that may be names of streams.

    These are the names in FROM clauses, after COMPUTE, and the single arguments of GEOHASH.
    """
    found: set[str] = set()
    for node in chain(*map(walk, nodes)):
        match node:
            case ast.MetricStream(members=members):
                found.update(members)
            case ast.InsightStatement(expression=ast.Name(name)):
                found.add(name)
            case ast.FunctionCall("GEOHASH", (ast.Name(name) | ast.MetricStream(name),)):
                found.add(name)
    return frozenset(found)


def streams_of(
    script: Script,
    used: frozenset[str],
    schemas: Schemas,
    diagnostics: Diagnostics,
    broken: frozenset[str] = frozenset(),
) -> StreamDefinitions:
    """Return the streams that a script defines; report errors in their definitions.

    ``used``: the names in FROM clauses. ``schemas``: the columns of feeds. ``broken``: the names
    that may be defined by statements with syntax errors.
    """
    feeds: dict[str, Feed] = {}
    positions: dict[str, ast.Position] = {}
    conditions: dict[str, tuple[ast.Condition, ...] | None] = {}
    for each in script.statements:
        if not isinstance(each, ast.StreamDefinition):
            continue
        span = head(each.span, len(each.name))
        if each.name in conditions or each.name in feeds or each.name in positions:
            hint = "Give each stream of a submission a name of its own."
            diagnostics.error(span, f"there are two streams `{each.name}`", hint)
        elif each.name not in used:
            example = f"cpu FROM ({each.name})"
            if each.provider.lower() == "position":
                example = f"GEOHASH[6]({each.name})"
            hint = f"Read a metric from it, as in `{example}`, or remove it."
            diagnostics.warning(span, f"no insight reads the stream `{each.name}`", hint)
        found = _bind_stream(each, schemas, diagnostics)
        if isinstance(found, Feed):
            feeds.setdefault(each.name, found)
        elif isinstance(found, ast.Position):
            positions.setdefault(each.name, found)
        else:
            conditions.setdefault(each.name, found)
    defined = conditions.keys() | feeds.keys() | positions.keys()
    conditions.update(dict.fromkeys(broken - defined))
    return StreamDefinitions(conditions, feeds, positions)


def _bind_stream(
    definition: ast.StreamDefinition, schemas: Schemas, diagnostics: Diagnostics
) -> Feed | ast.Position | tuple[ast.Condition, ...] | None:
    """Return the feed (provider ``stream``), position or conditions (``storage``) of a definition.

    Return None for an erroneous definition.
    """
    provider = definition.provider.lower()
    found = Diagnostics()
    feed = bind_feed(definition, found) if provider == "stream" else None
    position = bind_position(definition, found) if provider == "position" else None
    if provider not in PROVIDERS:
        near = nearest(provider, PROVIDERS)
        found.error(
            definition.span,
            f"there is no provider `{definition.provider}`",
            did_you_mean(near) if near else f"Providers: {', '.join(PROVIDERS)}.",
        )
    found.extend(_check_keys(definition, provider))
    diagnostics.extend(found.problems)
    if feed is not None:
        diagnostics.extend(check_columns(definition, feed, schemas))
        return feed
    if found.has_errors:
        return None
    if position is not None:
        return position
    return tuple(
        _membership(_key(setting), setting.values, setting.span) for setting in definition.settings
    )


def _key(setting: ast.Setting) -> str:
    """Return the attribute that a ``storage`` setting filters by.

    The key of the setting may be the plural of the attribute.
    """
    return canonical(_PLURALS.get(setting.key.lower(), setting.key))


def _check_keys(definition: ast.StreamDefinition, provider: str) -> Iterator[Diagnostic]:
    """Yield errors for repeated settings, and warnings for probable misspellings."""
    seen: set[str] = set()
    for setting in definition.settings:
        key = _key(setting) if provider == "storage" else canonical(setting.key)
        if key in seen:
            several = provider == "storage" or key == "attributes"
            hint = f'List all its values: `{setting.key}=("a", "b")`.'
            hint = hint if several else "Remove one of the settings."
            yield error(setting.span, f"`{setting.key}` is given twice", hint)
        seen.add(key)
        near = nearest(setting.key, _ATTRIBUTES)
        if provider == "storage" and near and key not in _ATTRIBUTES:
            message = f"`{setting.key}` is interpreted as a label of points and nodes"
            yield warning(setting.span, message, did_you_mean(near))


def _membership(key: str, values: tuple[ast.Value, ...], span: ast.Span) -> ast.Condition:
    return ast.ListMembership(ast.Name(key, span=span), values, span=span)
