"""STREAM definitions of the provider ``stream``: whose rows are points, and whether they can be."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from analytics_enabler.semantics.findings import Findings, did_you_mean, nearest
from analytics_enabler.semantics.named import read_by, read_by_condition
from analytics_enabler.semantics.trees import rebuilt
from grammar import ParseError, ast, parse
from mistbow.panes.feeding import (
    attributes_in,
    is_attribute,
    is_entity,
    is_number,
    is_time,
    is_word,
)
from mistbow.plan.feeds import Feed

SETTINGS = ("name", "site", "time", "metric", "value", "entity", "attributes")

_STREAM = re.compile(r"[a-z0-9][a-z0-9._/-]{0,99}")
_MAY_NAME = re.compile(r"\bfrom\b[^;(]*\bstream\b[^;(]*\(", re.IGNORECASE)
"""Texts without this, which are most, are not parsed once more for the streams that they name."""

Named = tuple[str | None, str]
"""A stream of a site, None for the enabler's own."""

Schemas = Mapping[Named, pa.Schema | None]
"""The columns of streams; None for one that is not there."""


def streams_named(text: str) -> frozenset[Named]:
    """Return the streams that a text takes points from, for their columns to be looked up."""
    if not _MAY_NAME.search(text):
        return frozenset()
    try:
        statements = parse(text).statements
    except ParseError as error:
        statements = () if error.rest is None else error.rest.statements
    feeds = (
        feed_of(each, Findings()) for each in statements if isinstance(each, ast.StreamDefinition)
    )
    return frozenset((feed.site, feed.stream) for feed in feeds if feed is not None)


def feed_of(definition: ast.StreamDefinition, findings: Findings) -> Feed | None:
    """Return which rows are points, None where the settings do not say, which is told."""
    if definition.provider.lower() != "stream":
        return None
    known = findings.errors
    given: dict[str, tuple[str, ...]] = {}
    for setting in definition.settings:
        values = tuple(each.value for each in setting.values if isinstance(each, ast.Text))
        if setting.key not in SETTINGS:
            near = nearest(setting.key, SETTINGS)
            hint = did_you_mean(near) if near else f"It has {', '.join(SETTINGS)}."
            findings.error(setting.span, f"`stream` has no setting `{setting.key}`", hint)
        elif len(values) < len(setting.values) or (len(values) > 1 and setting.key != "attributes"):
            what = "names of columns" if setting.key == "attributes" else "one name"
            hint = f'Write `{setting.key}="…"`, in quotes.'
            findings.error(setting.span, f"`{setting.key}` takes {what}", hint)
        given[setting.key] = values
    if "name" not in given:
        hint = 'Add the name of one: `stream(name="app/events")`.'
        findings.error(definition.span, "this does not say which stream it is", hint)
    for name in given.get("name", ()):
        if not _STREAM.fullmatch(name):
            hint = "It has lower-case letters, digits and `._/-`, and 100 of them at most."
            findings.error(definition.span, f"`{name}` is no name of a stream", hint)
    if ("metric" in given) != ("value" in given):
        hint = "Give both, or neither: then each numeric column is a metric."
        findings.error(definition.span, "`metric` and `value` go together", hint)
    if findings.errors > known:
        return None
    one = {name: values[0] for name, values in given.items() if name != "attributes"}
    stream = one.pop("name")
    return Feed(stream, **one, attributes=given.get("attributes"))


def check_columns(
    definition: ast.StreamDefinition, feed: Feed, schemas: Schemas, findings: Findings
) -> None:
    """Say what of a feed does not fit the columns of its stream, as far as these are known."""
    if (feed.site, feed.stream) not in schemas:
        return
    schema = schemas[feed.site, feed.stream]
    if schema is None:
        hint = "Check its name, and at which site it is: `site` says, else it is the enabler's."
        findings.warning(
            definition.span,
            f"there is no stream `{feed.stream}` yet; its insights wait for one",
            hint,
        )
        return
    for name in feed.named:
        if name not in schema.names:
            near = nearest(name, schema.names)
            hint = did_you_mean(near) if near else f"It has {', '.join(schema.names)}."
            message = f"the stream `{feed.stream}` has no column `{name}`"
            findings.error(definition.span, message, hint)
    attributes = feed.attributes or ()
    kinds: tuple[tuple[str | None, Callable[[pa.DataType], bool], str], ...] = (
        (feed.time, is_time, "a time: an integer of milliseconds, or a timestamp"),
        (feed.value, is_number, "a number"),
        (feed.metric, is_word, "a text"),
        (feed.entity, is_entity, "a single value"),
        *((name, is_attribute, "a text, a truth value or a number") for name in attributes),
    )
    for column, fits, what in kinds:
        if column in schema.names and not fits(found := schema.field(column).type):
            findings.error(
                definition.span,
                f"the column `{column}` of `{feed.stream}` is of the type {found}",
                f"Name one that is {what}.",
            )
    if all(name in schema.names for name in feed.named):
        _check_attributes(definition, feed, schema, findings)


def _check_attributes(
    definition: ast.StreamDefinition, feed: Feed, schema: pa.Schema, findings: Findings
) -> None:
    for attribute, columns in attributes_in(schema, feed).items():
        if len(columns) > 1:
            together = ", ".join(f"`{column}`" for column in columns[:-1])
            findings.error(
                definition.span,
                f"the columns {together} and `{columns[-1]}` of `{feed.stream}` are each the "
                f"attribute `{attribute}`",
                "Name in `attributes` the columns that are meant, and only one of these.",
            )


def taken(
    insight: ast.Insight, feeds: Mapping[str, Feed], findings: Findings
) -> tuple[ast.Insight, Feed | None] | None:
    """Return an insight without FROM a feed, and that feed; None where that is told to be wrong.

    All points of an insight are of one feed, or all of storage. A name by itself after COMPUTE is
    of where the metrics in WHEN are.
    """
    if not feeds:
        return insight, None
    found: dict[Feed | None, ast.MetricStream] = {}
    known = findings.errors
    in_condition: list[ast.MetricStream] = []
    if isinstance(insight.expression, ast.Name) and insight.when is not None:
        in_condition = list(read_by_condition(insight.when))
    for stream in in_condition or read_by(insight):
        named = [feeds[member] for member in stream.members if member in feeds]
        if named and len(stream.members) > 1:
            findings.error(
                stream.span,
                f"`{named[0].stream}` is no storage: no entity or other stream goes with it",
                "Write its name alone in FROM, and a condition on attributes behind it.",
            )
        found.setdefault(named[0] if named else None, stream)
    if len(found) > 1 and findings.errors == known:
        (one, first), (other, second) = list(found.items())[:2]
        findings.error(
            second.span,
            f"`{first.metric}` is of {told_of(one)} and `{second.metric}` of {told_of(other)}: "
            "an insight reads one of them",
            "Name the same STREAM in FROM behind each metric, or part the insight.",
        )
    if findings.errors > known:
        return None
    feed = next(iter(found), None)
    return (insight if feed is None else rebuilt(insight, _without_from)), feed


def _without_from(node: ast.Node) -> ast.Node:
    node = rebuilt(node, _without_from)
    if not isinstance(node, ast.MetricStream):
        return node
    # Not its name alone, which might be an attribute's in a condition.
    return replace(node, members=())


def told_of(feed: Feed | None) -> str:
    """Return where points are from, in words."""
    return "storage" if feed is None else f"the stream `{feed.stream}`"
