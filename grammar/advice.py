"""Hints for likely mistakes: one function a mistake, the first that knows better speaks."""

import difflib
from collections.abc import Callable

from grammar.failure import CLAUSES, COMPARATORS, KEYWORDS, Failure
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import clip
from grammar.units import MILLIS, millis_per

_SHAPE = "`name = COMPUTE AVG(metric, 10 SECONDS) EVERY 5 SECONDS`"
_SQL = {"WHERE": "WHEN", "HAVING": "WHEN", "IF": "WHEN", "FILTER": "WHEN", "GROUP": "BY"}
_NAMING = (Tree.RULE_stream, Tree.RULE_grouping, Tree.RULE_entities)
_COMING = {"INSIGHT", "STREAM", "FUNCTION", "SAMPLE", "SALIENCE"}


def advice(failure: Failure) -> str | None:
    """Return a hint for the likely mistake behind a failure, if one is known."""
    return next((hint for advise in _ADVISERS if (hint := advise(failure))), None)


def _not_yet(failure: Failure) -> str | None:
    before = failure.tokens[failure.index - 1].text.upper() if failure.index else ""
    for word in (before, failure.word):
        if word in _COMING:
            return f"{word} is not supported yet."
    return None


def _sql(failure: Failure) -> str | None:
    if failure.tokens[0].text.upper() == "SELECT":
        return f"This is not SQL: write {_SHAPE}."
    meant = _SQL.get(failure.word)
    return f"Write {meant} instead of {failure.word}." if meant and failure.after_value else None


def _separator(failure: Failure) -> str | None:
    starts_insight = (
        failure.found.type == Tree.ID
        and failure.kind(1) == Tree.ASSIGN
        and failure.kind(2) == Tree.COMPUTE
    )
    return "Put a `;` between two insights." if starts_insight and failure.index else None


def _header(failure: Failure) -> str | None:
    if failure.expected == {Tree.ASSIGN}:
        if failure.kind(0) == Tree.COMPUTE or failure.kind(1) == Tree.COMPUTE:
            return "Write a single `=` between the name and COMPUTE."
        return f"An insight looks like this: {_SHAPE}."
    if failure.expected == {Tree.COMPUTE} and not _near(failure):
        return "Write COMPUTE after the `=`."
    if failure.index == 0 and failure.found.type == Tree.COMPUTE:
        return f"Give the insight a name: {_SHAPE}."
    if failure.index == 0 and failure.found.type == Tree.STRING:
        return "The name of an insight has no quotes."
    if failure.index == 0 and failure.found.type in KEYWORDS:
        return "A keyword cannot name an insight."
    return None


def _option(failure: Failure) -> str | None:
    if failure.rule in (Tree.RULE_settings, Tree.RULE_option, Tree.RULE_setting):
        return "An option looks like this: `WITH SCHEDULER=latency`."
    return None


def _unit(failure: Failure) -> str | None:
    if failure.rule != Tree.RULE_interval:
        return None
    if failure.expected == {Tree.ID}:
        return f"Write a unit after the number: {', '.join(MILLIS)}."
    if millis_per(failure.found.text):
        return f"Write how many: `1 {clip(failure.found.text)}`."
    return None


def _clause_order(failure: Failure) -> str | None:
    if failure.found.type in CLAUSES and Tree.EOF in failure.expected:
        return "The clauses stand in this order, each once at most: BY, WHEN, EVERY, WITH."
    return None


def _parenthesis(failure: Failure) -> str | None:
    opened = []
    for token in failure.tokens[: failure.index]:
        if token.type == Tree.LPAR:
            opened.append(token)
        elif token.type == Tree.RPAR:
            opened.pop()
    if failure.found.type == Tree.RPAR and not opened:
        return "No parenthesis is open here."
    closes = failure.found.type in CLAUSES | {Tree.EOF} and Tree.RPAR in failure.expected
    if closes and opened:
        where = opened[-1]
        return f"Close the `(` of line {where.line}, column {where.column}."
    return None


def _window(failure: Failure) -> str | None:
    if {Tree.COMMA, Tree.RPAR} <= failure.expected and failure.found.type == Tree.NUMBER:
        return "Put a `,` between the metric and the window."
    return None


def _stream(failure: Failure) -> str | None:
    if {Tree.COMMA, Tree.RPAR} <= failure.expected:
        if failure.found.type in COMPARATORS:
            shown = failure.found.text
            return f"A condition on a metric stands behind WHEN: `metric WHEN {shown} …`."
        if failure.found.type == Tree.LPAR:
            return "Aggregates of aggregates are not supported yet."
    if failure.rule == Tree.RULE_entities and failure.expected == {Tree.LPAR}:
        return f"Put the entities into parentheses: `FROM ({clip(failure.found.text)})`."
    return None


def _quotes(failure: Failure) -> str | None:
    if failure.found.type in KEYWORDS and failure.rule in _NAMING:
        return f'A name that is a keyword needs quotes: `"{clip(failure.found.text)}"`.'
    if failure.found.type == Tree.ID and failure.rule in (Tree.RULE_members, Tree.RULE_member):
        return f'A text needs quotes: `"{clip(failure.found.text)}"`.'
    odd = failure.found.type in (Tree.MINUS, Tree.SLASH, Tree.ID)
    if odd and not failure.after_value and failure.kind(-1) == Tree.ID:
        return "Quote a name that has spaces, `-` or `/` in it."
    return None


def _keyword(failure: Failure) -> str | None:
    near = _near(failure)
    return f"Did you mean {near}?" if near else None


def _near(failure: Failure) -> str | None:
    """Return the expected keyword that the word found resembles, if any does."""
    if failure.found.type != Tree.ID:
        return None
    possible = [Tree.literalNames[kind].strip("'").upper() for kind in failure.expected & KEYWORDS]
    return next(iter(difflib.get_close_matches(failure.word, possible, n=1)), None)


_ADVISERS: tuple[Callable[[Failure], str | None], ...] = (
    _not_yet,
    _sql,
    _separator,
    _option,
    _header,
    _unit,
    _clause_order,
    _parenthesis,
    _window,
    _stream,
    _keyword,
    _quotes,
)
