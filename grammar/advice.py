"""Hints for likely mistakes: one function a mistake, the first that knows better speaks."""

import difflib
from collections.abc import Callable

from grammar.failure import ARITHMETIC, CLAUSES, KEYWORDS, Failure
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.problems import clip
from grammar.units import MILLIS, is_unit, nearest_unit
from grammar.words import OPTION_WORDS, OPTIONS

_SHAPE = "`name = COMPUTE AVG(metric, 10 SECONDS) EVERY 5 SECONDS`"
_SQL = {"WHERE": "WHEN", "HAVING": "WHEN", "IF": "WHEN", "FILTER": "WHEN", "GROUP": "BY"}
_NAMING = (Tree.RULE_grouping, Tree.RULE_entities, Tree.RULE_piece, Tree.RULE_setting)
_LISTED = (Tree.RULE_members, Tree.RULE_member)
_OPENING = {Tree.RPAR: Tree.LPAR, Tree.RBRACKET: Tree.LBRACKET, Tree.RBRACE: Tree.LBRACE}
_DEPENDENT = ("CONFIDENCE", "K", "R")
_EXAMPLES = {
    Tree.ADAM: "ADAM AND CONFIDENCE 0.95",
    Tree.ALGORITHM: "ALGORITHM pmcod AND K=50 AND R=0.5",
    Tree.ALLOW: "ALLOW WHEN > 100",
    Tree.AWARENESS: "AWARENESS ON ACCURACY",
    Tree.CONFIDENCE: "MAX_ERROR 0.05 AND CONFIDENCE 0.95",
    Tree.COST_CAP: "COST_CAP 2.5 PER 1 HOUR",
    Tree.K: "ALGORITHM pmcod AND K=50 AND R=0.5",
    Tree.MAX_ERROR: "MAX_ERROR 0.05 AND CONFIDENCE 0.95",
    Tree.PLACEMENT_ON: 'PLACEMENT_ON region="north" 2 DEDICATED',
    Tree.R: "ALGORITHM pmcod AND K=50 AND R=0.5",
    Tree.SALIENCE: "SALIENCE 5",
    Tree.SAMPLE: "SAMPLE 0.2",
    Tree.SCHEDULER: "SCHEDULER=latency",
    Tree.SIGNATURE: "SIGNATURE 'board'",
}


def advice(failure: Failure) -> str:
    """Return a hint for the likely mistake behind a failure; where none is known, an example."""
    known = (hint for advise in _ADVISERS if (hint := advise(failure)))
    return next(known, None) or _example(failure)


def _example(failure: Failure) -> str:
    expected = failure.expected
    if {Tree.NUMBER, Tree.LPAR} <= expected:
        if failure.kind(-1) in (Tree.WHEN, Tree.AND, Tree.OR, Tree.NOT):
            return 'Write a condition here, for example `> 100` or `region == "north"`.'
        return "Write a value here, for example `AVG(cpu.util, 10 SECONDS)`."
    if {Tree.NUMBER, Tree.STRING} <= expected:
        return "Write a number, a text in quotes, true or false."
    if Tree.NUMBER in expected:
        return "Write a number, for example `5`."
    if Tree.PER in expected:
        return f"It is written like this: `{_EXAMPLES[Tree.COST_CAP]}`."
    if failure.after_value:
        return "Two values are joined by an operator: `+`, `-`, `*` or `/`."
    if failure.kind(-1) == Tree.NOT:
        return 'Write `NOT IN ("a", "b")`, or `!=` for a single value.'
    if Tree.LPAR in expected and failure.kind(-1) == Tree.RBRACKET:
        return "What a function is of stands in parentheses: `EWMA[0.3](cpu.util)`."
    return f"An insight looks like this: {_SHAPE}."


def _time(failure: Failure) -> str | None:
    before = {token.type for token in failure.tokens[max(0, failure.index - 5) : failure.index]}
    if Tree.AT in before and failure.found.type not in CLAUSES and not _near(failure):
        return "A time of day is written like this: `EVERY 1 DAYS AT 12:00 GMT`."
    return None


def _sql(failure: Failure) -> str | None:
    if failure.tokens[0].text.upper() == "SELECT":
        return f"This is not SQL: write {_SHAPE}."
    meant = _SQL.get(failure.word)
    return f"Write {meant} instead of {failure.word}." if meant and failure.after_value else None


def _separator(failure: Failure) -> str | None:
    kinds = (failure.found.type, failure.kind(1), failure.kind(2))
    starts = failure.word == "FUNCTION" or kinds in (
        (Tree.ID, Tree.ASSIGN, Tree.COMPUTE),
        (Tree.ID, Tree.COLON, Tree.STREAM),
    )
    return "Put a `;` between two statements." if starts and failure.index else None


def _definition(failure: Failure) -> str | None:
    first, second = failure.tokens[0], failure.tokens[min(1, len(failure.tokens) - 1)]
    if second.type == Tree.COLON:
        if failure.found.type == Tree.COMPUTE:
            return "An insight is defined by `=`, a stream by `:`."
        return 'A stream looks like this: `name: STREAM FROM storage(region="north")`.'
    if first.text.upper() == "FUNCTION" and second.type != Tree.ASSIGN:
        return _parenthesis(failure) or "A function looks like this: `FUNCTION twice(x) { 2 * x }`."
    return None


def _header(failure: Failure) -> str | None:
    if failure.expected == {Tree.ASSIGN, Tree.COLON}:
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
    seen = [token.type for token in failure.tokens[: failure.index + 1]]
    begun = [kind for kind in seen if kind in OPTION_WORDS]
    if failure.expected >= OPTION_WORDS:
        near = difflib.get_close_matches(failure.word, OPTIONS, n=1)
        if near:
            return f"Did you mean {near[0]}?"
        if begun and begun[-1] == Tree.ALLOW:
            return "A condition with AND stands in parentheses: `ALLOW WHEN (x > 1 AND y > 1)`."
        return f"The options are {', '.join(w for w in OPTIONS if w not in _DEPENDENT)}."
    within = failure.rule not in (Tree.RULE_term, Tree.RULE_scope, Tree.RULE_statement)
    known = begun and Tree.WITH in seen and Tree.EOF not in failure.expected
    if known and within and failure.found.type not in CLAUSES:
        return f"It is written like this: `{_EXAMPLES[begun[-1]]}`."
    comma = failure.found.type == Tree.COMMA and Tree.WITH in seen
    return "Options are joined by AND." if comma and Tree.JOINT in failure.expected else None


def _unit(failure: Failure) -> str | None:
    if Tree.NUMBER in failure.expected and is_unit(failure.found.text):
        return f"Write how many: `1 {clip(failure.found.text)}`."
    if failure.kind(-1) != Tree.NUMBER or failure.kind(-2) == Tree.COLON:
        return None
    near = nearest_unit(failure.found.text) if failure.found.type == Tree.ID else None
    if near and not _near(failure):
        return f"Did you mean `{near}`?"
    if failure.expected == {Tree.UNIT}:
        return f"Write a unit after the number: {', '.join(MILLIS)}."
    return None


def _clause_order(failure: Failure) -> str | None:
    if failure.found.type in CLAUSES and Tree.EOF in failure.expected:
        return "The clauses stand in this order, each once at most: BY, WHEN, EVERY, WITH."
    return None


def _inner_clause(failure: Failure) -> str | None:
    grouped = any(token.type == Tree.BY for token in failure.tokens[: failure.index])
    if failure.found.type in ARITHMETIC and Tree.STAR not in failure.expected and grouped:
        return "An expression with a BY of its own stands in parentheses: `(… BY node) / 2`."
    return None


def _parenthesis(failure: Failure) -> str | None:
    opened = []
    for token in failure.tokens[: failure.index]:
        if token.type in _OPENING.values():
            opened.append(token)
        elif token.type in _OPENING:
            opened.pop()
    closing = failure.found.type in _OPENING
    if closing and not opened:
        sign = "parenthesis" if failure.found.type == Tree.RPAR else "bracket"
        return f"No {sign} is open here."
    ends = closing or failure.found.type in CLAUSES | {Tree.EOF, Tree.LPAR}
    if ends and failure.expected & {Tree.RPAR, Tree.RBRACKET, Tree.RBRACE} and opened:
        where = opened[-1]
        return f"Close the `{where.text}` of line {where.line}, column {where.column}."
    return None


def _window(failure: Failure) -> str | None:
    if {Tree.COMMA, Tree.RPAR} <= failure.expected and failure.found.type == Tree.NUMBER:
        return "Put a `,` between the metric and the window."
    return None


def _entities(failure: Failure) -> str | None:
    if failure.rule == Tree.RULE_entities and failure.expected == {Tree.LPAR}:
        return f"Put the entities into parentheses: `FROM ({clip(failure.found.text)})`."
    return None


def _quotes(failure: Failure) -> str | None:
    if failure.found.type in KEYWORDS and failure.rule in _NAMING:
        return f'A name that is a keyword needs quotes: `"{clip(failure.found.text)}"`.'
    if failure.kind(-1) == Tree.IN and failure.kind(-2) in (Tree.LPAR, Tree.COMMA, Tree.COMPUTE):
        return 'A name that is a keyword needs quotes: `"in"`.'
    wants_text = failure.rule in _LISTED or Tree.STRING in failure.expected - {Tree.ID}
    if failure.found.type == Tree.ID and wants_text and Tree.ID not in failure.expected:
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
    kinds = failure.expected & (KEYWORDS | {Tree.STREAM, Tree.PER, Tree.ON})
    possible = [Tree.symbolicNames[kind] for kind in kinds]
    return next(iter(difflib.get_close_matches(failure.word, possible, n=1)), None)


_ADVISERS: tuple[Callable[[Failure], str | None], ...] = (
    _sql,
    _separator,
    _definition,
    _header,
    _time,
    _unit,
    _clause_order,
    _parenthesis,
    _window,
    _entities,
    _inner_clause,
    _keyword,
    _quotes,
    _option,
)
