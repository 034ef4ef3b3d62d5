"""STREAM definitions with the provider ``stream``, which read the rows of a stream as points."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from analytics.plan.feed_columns import (
    attribute_columns,
    is_attribute,
    is_entity,
    is_number,
    is_time,
    is_word,
)
from analytics.plan.feeds import Feed
from analytics_enabler.semantics.bind.names import metrics_with_feed
from analytics_enabler.semantics.diagnostics import (
    Diagnostics,
    did_you_mean,
    error,
    nearest,
    warning,
)
from grammar import Diagnostic, ast
from grammar.trees import map_children

SETTINGS = ("name", "site", "time", "metric", "value", "entity", "attributes")

_STREAM = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")

StreamName = tuple[str | None, str]
"""(site of the stream, name of the stream); site None: the enabler's own site."""

Schemas = Mapping[StreamName, pa.Schema | None]
"""Stream -> columns; None: the stream does not exist. Streams with unknown columns are omitted."""


def feed_streams(statements: Iterable[ast.Statement]) -> frozenset[StreamName]:
    """Return the streams that STREAM definitions in ``statements`` read as feeds.

    The check of these definitions requires the columns of the returned streams.
    """
    feeds = (
        bind_feed(each, Diagnostics())
        for each in statements
        if isinstance(each, ast.StreamDefinition) and each.provider.lower() == "stream"
    )
    return frozenset((feed.site, feed.stream) for feed in feeds if feed is not None)


def bind_feed(definition: ast.StreamDefinition, diagnostics: Diagnostics) -> Feed | None:
    """Return the feed that a STREAM definition with the provider ``stream`` describes.

    If the definition has errors, report the errors and return None.
    """
    found = Diagnostics()
    given: dict[str, tuple[str, ...]] = {}
    for setting in definition.settings:
        values = tuple(each.value for each in setting.values if isinstance(each, ast.Text))
        if setting.key not in SETTINGS:
            near = nearest(setting.key, SETTINGS)
            hint = did_you_mean(near) if near else f"Settings: {', '.join(SETTINGS)}."
            found.error(setting.span, f"`stream` has no setting `{setting.key}`", hint)
        elif len(values) < len(setting.values) or (len(values) > 1 and setting.key != "attributes"):
            what = "names of columns" if setting.key == "attributes" else "one name"
            hint = f'Write `{setting.key}="…"`, in quotes.'
            found.error(setting.span, f"`{setting.key}` takes {what}", hint)
        given[setting.key] = values
    if "name" not in given:
        hint = 'Add the name of the stream, as in `stream(name="app/events")`.'
        found.error(definition.span, "the setting `name` is missing", hint)
    for name in given.get("name", ()):
        if not _STREAM.fullmatch(name):
            hint = "A name has at most 100 characters: lower-case letters, digits and `._/-`."
            found.error(definition.span, f"`{name}` is not a valid name of a stream", hint)
    if ("metric" in given) != ("value" in given):
        hint = "Set both or neither; with neither, each numeric column is a metric."
        found.error(definition.span, "`metric` and `value` need each other", hint)
    diagnostics.extend(found.problems)
    if found.has_errors:
        return None
    one = {name: values[0] for name, values in given.items() if name != "attributes"}
    stream = one.pop("name")
    return Feed(stream, **one, attributes=given.get("attributes"))


def check_columns(
    definition: ast.StreamDefinition, feed: Feed, schemas: Schemas
) -> Iterator[Diagnostic]:
    """Yield an error for each column in a feed that the stream lacks, or that has a wrong type.

    Yield only a warning if the stream does not exist. Yield nothing if ``schemas`` does not contain
    the stream.
    """
    if (feed.site, feed.stream) not in schemas:
        return
    schema = schemas[feed.site, feed.stream]
    if schema is None:
        hint = "Check `name` and `site`; without `site`, the stream is at the enabler's site."
        message = f"the stream `{feed.stream}` does not exist; its insights wait for it"
        yield warning(definition.span, message, hint)
        return
    for name in feed.named:
        if name not in schema.names:
            near = nearest(name, schema.names)
            hint = did_you_mean(near) if near else f"Columns: {', '.join(schema.names)}."
            message = f"the stream `{feed.stream}` has no column `{name}`"
            yield error(definition.span, message, hint)
    attributes = feed.attributes or ()
    kinds: tuple[tuple[str | None, Callable[[pa.DataType], bool], str], ...] = (
        (feed.time, is_time, "a time: an integer of milliseconds, or a timestamp"),
        (feed.value, is_number, "a number"),
        (feed.metric, is_word, "a text"),
        (feed.entity, is_entity, "a single value"),
        *((name, is_attribute, "a text, a boolean or a number") for name in attributes),
    )
    for column, fits, what in kinds:
        if column in schema.names and not fits(found := schema.field(column).type):
            message = f"the column `{column}` of `{feed.stream}` is of the type {found}"
            yield error(definition.span, message, f"Name a column that contains {what}.")
    if all(name in schema.names for name in feed.named):
        yield from _check_attributes(definition, feed, schema)


def _check_attributes(
    definition: ast.StreamDefinition, feed: Feed, schema: pa.Schema
) -> Iterator[Diagnostic]:
    for attribute, columns in attribute_columns(schema, feed).items():
        if len(columns) > 1:
            together = ", ".join(f"`{column}`" for column in columns[:-1])
            yield error(
                definition.span,
                f"`{feed.stream}` has several columns for the attribute `{attribute}`: "
                f"{together} and `{columns[-1]}`",
                "Set `attributes` to the columns to use, with only one of these columns.",
            )


def without_feed(
    insight: ast.InsightStatement, feeds: Mapping[str, Feed], diagnostics: Diagnostics
) -> tuple[ast.InsightStatement, Feed | None] | None:
    """Return (insight without feed names in its FROM clauses, feed that the insight reads).

    The feed is None if the insight reads storage. All points that an insight reads must come from
    the same feed, or all from storage; otherwise, report an error and return None instead of the
    pair. ``feeds``: name of a STREAM -> feed.
    """
    if not feeds:
        return insight, None
    found: dict[Feed | None, ast.MetricStream] = {}
    mixed = False
    for stream in metrics_with_feed(insight):
        named = [feeds[member] for member in stream.members if member in feeds]
        if named and len(stream.members) > 1:
            mixed = True
            diagnostics.error(
                stream.span,
                f"`{named[0].stream}` is read as a stream: FROM cannot combine it with entities "
                "or other streams",
                "Write its name alone in FROM, followed by a condition on attributes.",
            )
        found.setdefault(named[0] if named else None, stream)
    if mixed:
        return None
    if len(found) > 1:
        (one, first), (other, second) = list(found.items())[:2]
        diagnostics.error(
            second.span,
            f"`{first.metric}` is of {origin(one)} and `{second.metric}` of {origin(other)}: "
            "an insight can read only one of the two",
            "Write the same STREAM in the FROM of each metric, or divide the insight.",
        )
        return None
    feed = next(iter(found), None)
    return (insight if feed is None else map_children(insight, _without_from)), feed


def _without_from(node: ast.SyntaxNode) -> ast.SyntaxNode:
    node = map_children(node, _without_from)
    # The node stays a MetricStream: a bare name might be an attribute in a condition.
    return replace(node, members=()) if isinstance(node, ast.MetricStream) else node


def origin(feed: Feed | None) -> str:
    """Return a phrase that names the origin of points: storage or a stream."""
    return "storage" if feed is None else f"the stream `{feed.stream}`"
