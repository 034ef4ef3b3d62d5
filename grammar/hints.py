"""Hints for likely syntax mistakes.

Each function recognizes one mistake and returns a hint, or None. The first hint found is used.
"""

import difflib
from collections.abc import Callable

from grammar.comparison_hints import compared_by_word, compared_with_list
from grammar.diagnostics import clip
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.keywords import OPTION_WORDS, OPTIONS
from grammar.mismatch import ARITHMETIC, CLAUSES, KEYWORDS, Mismatch
from grammar.name_hints import SHAPE, invalid_name
from grammar.number_hints import unclear_number
from grammar.other_languages import BY_TIME, TIME_COLUMNS, TIMES, TIMES_HINT, WORDS
from grammar.units import MILLIS, is_unit, nearest_unit

_SQL = {"WHERE": "WHEN", "HAVING": "WHEN", "IF": "WHEN", "FILTER": "WHEN", "GROUP": "BY"}
_NAMING = (Tree.RULE_grouping, Tree.RULE_entities, Tree.RULE_piece, Tree.RULE_setting)
_LISTED = (Tree.RULE_members, Tree.RULE_member)
_OPENING = {Tree.RPAR: Tree.LPAR, Tree.RBRACKET: Tree.LBRACKET, Tree.RBRACE: Tree.LBRACE}
_CALLED = ("AVG", "SUM", "COUNT", "MIN", "MAX", "MEAN", "MEDIAN", "SDEV", "RATE")
_RANGES = {"INCREASE": "RATE", "IRATE": "RATE", "STDDEV_OVER_TIME": "SDEV"}
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


def hint_for(mismatch: Mismatch) -> str:
    """Return a hint for the likely cause of a mismatch.

    If no cause is recognized, return an example of correct syntax.
    """
    hints = (hint for find in _HINTS if (hint := find(mismatch)))
    return next(hints, None) or _example(mismatch)


def _example(mismatch: Mismatch) -> str:
    expected = mismatch.expected
    if {Tree.NUMBER, Tree.LPAR} <= expected:
        if mismatch.kind(-1) in (Tree.WHEN, Tree.AND, Tree.OR, Tree.NOT):
            return 'Write a condition here, for example `> 100` or `region == "north"`.'
        return "Write a value here, for example `AVG(cpu.util, 10 SECONDS)`."
    if {Tree.NUMBER, Tree.STRING} <= expected:
        return "Write a number, a text in quotes, true or false."
    if Tree.NUMBER in expected:
        return "Write a number, for example `5`."
    if Tree.PER in expected:
        return f"Write, for example, `{_EXAMPLES[Tree.COST_CAP]}`."
    if mismatch.after_value:
        return "Write an operator between two values: `+`, `-`, `*` or `/`."
    if mismatch.kind(-1) == Tree.NOT:
        return 'Write `NOT IN ("a", "b")`, or `!=` for a single value.'
    if Tree.LPAR in expected and mismatch.kind(-1) == Tree.RBRACKET:
        return "Write the arguments of a function in parentheses: `EWMA[0.3](cpu.util)`."
    return f"An insight looks like this: {SHAPE}."


def _other_language(mismatch: Mismatch) -> str | None:
    """Return a hint for a word or a form of another query language."""
    casts = mismatch.word == "AS" and mismatch.tokens[max(mismatch.index - 3, 0)].text.upper()
    if casts == "CAST" or (mismatch.kind(0) == mismatch.kind(1) == Tree.COLON):
        return "There are no casts: the values of metrics are numbers."
    if mismatch.kind(0) == Tree.RPAR and mismatch.kind(-1) == Tree.LPAR:
        metric, dot, _ = mismatch.tokens[mismatch.index - 2].text.partition(".")
        if dot:
            return f"Write the metric in the function: `AVG({clip(metric)}, 5 MINUTES)`."
    named = mismatch.kind(0) == Tree.COLON and mismatch.kind(-1) == Tree.ID
    if (named and Tree.RPAR in mismatch.expected) or (
        mismatch.found.type in KEYWORDS and mismatch.kind(1) == Tree.COLON
    ):
        return "Arguments have no names: write, for example, `AVG(x, 5 MINUTES)`."
    if mismatch.kind(0) == Tree.COLON and Tree.RBRACKET in mismatch.expected:
        return "There are no subqueries: write the window in the function: `AVG(x, 5 MINUTES)`."
    if mismatch.found.type == Tree.ID and mismatch.expected != {Tree.ASSIGN, Tree.COLON}:
        before = mismatch.tokens[max(mismatch.index - 1, 0)].text.upper()
        if mismatch.word == "FOR" and mismatch.kind(1) == Tree.ID and not _is_last(mismatch):
            return "Write BY instead of FOR, as in `BY node`."
        if mismatch.kind(-1) == Tree.RPAR and _matches_keys(mismatch):
            return WORDS["GROUP_LEFT"]
        return WORDS.get(mismatch.word) or (WORDS["DISTINCT"] if before == "DISTINCT" else None)
    if mismatch.found.type == Tree.NUMBER:
        return _number(mismatch)
    if mismatch.found.type == Tree.STRING:
        return _quoted_interval(mismatch)
    if mismatch.found.type == Tree.LBRACE:
        return 'Write conditions on attributes after WHEN: `x WHEN node == "a"`.'
    is_call = mismatch.kind(-1) == Tree.LPAR and mismatch.kind(-2) == Tree.ID
    if mismatch.found.type in (Tree.STAR, Tree.RPAR) and is_call:
        return _metric_of_call(mismatch.tokens[max(mismatch.index - 2, 0)].text.upper())
    if mismatch.found.type == Tree.STAR and mismatch.kind(-1) == Tree.STAR:
        return "There is no power: `SQR(x)` is the square."
    unit_before = mismatch.kind(-1) == Tree.RBRACKET and mismatch.kind(-2) == Tree.UNIT
    if unit_before and Tree.LPAR in mismatch.expected:
        function = _called_on_range(mismatch)
        return f"Write the window after the metric: `{function}(x, 5 MINUTES)`, without `[5m]`."
    return None


def _is_last(mismatch: Mismatch) -> bool:
    """Return whether a window is meant, as by `FOR THE LAST 5 MINUTES`."""
    following = {token.text.upper() for token in mismatch.tokens[mismatch.index + 1 :][:2]}
    return bool(following & {"LAST", "PAST", "PREVIOUS"})


def _matches_keys(mismatch: Mismatch) -> bool:
    """Return whether `on(…)` or `ignoring(…)` of PromQL precedes the mismatch."""
    before = [token.text.upper() for token in mismatch.tokens[: mismatch.index]]
    opening = max((index for index, text in enumerate(before) if text == "("), default=0)
    return before[opening - 1] in ("ON", "IGNORING")


def _called_on_range(mismatch: Mismatch) -> str:
    """Return the function that means a function of PromQL before a range: `rate(x[5m])`."""
    called = mismatch.kind(-6) == Tree.LPAR and mismatch.index > 6
    name = mismatch.tokens[mismatch.index - 7].text.upper() if called else ""
    name = _RANGES.get(name, name.removesuffix("_OVER_TIME"))
    return name if name in _CALLED else "AVG"


def _number(mismatch: Mismatch) -> str | None:
    """Return a hint for a number after a word, or before one."""
    before = mismatch.tokens[mismatch.index - 1].text.upper()
    if before == "INTERVAL":
        return "Write the interval alone: `5 MINUTES`."
    if before in ("TOP", "TOPK", "FIRST"):
        return (
            f"Write the number in brackets: `TOP_K[{clip(mismatch.found.text)}](AVG(x) BY node)`."
        )
    if mismatch.after_value and mismatch.kind(1) == Tree.UNIT:
        return "Write the intervals in the function: `AVG(x, window, offset)`."
    return WORDS.get(before)


def _quoted_interval(mismatch: Mismatch) -> str | None:
    before = mismatch.tokens[max(mismatch.index - 1, 0)]
    if before.text.upper() == "INTERVAL":
        return "Write the interval alone and without quotes: `5 MINUTES`."
    if before.type == Tree.EVERY:
        return "Write the interval without quotes: `EVERY 5 SECONDS`."
    return None


def _metric_of_call(function: str) -> str:
    """Return a hint for a call without a metric; ``function``: in upper case."""
    if function == "NOW":
        return WORDS["WINDOW"]
    if function in TIMES or function == "TIME":
        return TIMES_HINT
    if function == "COUNT":
        return "Name a metric: `COUNT(metric, 1 MINUTE)` counts its points."
    known = function if function in _CALLED else "AVG"
    return f"Name a metric, as in `{known}(metric, 1 MINUTE)`."


def _attributes(mismatch: Mismatch) -> str | None:
    """Return a hint for the attributes after a BY."""
    found, last = mismatch.found.type, mismatch.kind(-1)
    if last in (Tree.BY, Tree.KEYED):
        if found in CLAUSES or found == Tree.EOF:
            return "Name an attribute after BY, as in `BY node`, or remove BY."
        if found == Tree.STAR:
            return "Name the attributes after BY, as in `BY node, site`."
        if found == Tree.LPAR:
            function = mismatch.tokens[max(mismatch.index - 2, 0)].text.upper()
            if function in _CALLED:
                return f"Write BY after the call: `{function}(x) BY node`."
            return "Write the attributes after BY without parentheses: `BY node, site`."
    if last == Tree.COMMA and found in CLAUSES and mismatch.rule == Tree.RULE_grouping:
        return "Name another attribute after the comma, or remove the comma."
    after_name = last in (Tree.ID, Tree.STRING) and mismatch.kind(-2) in (
        Tree.BY,
        Tree.KEYED,
        Tree.COMMA,
    )
    # EOF is expected only after a complete insight, here after the attributes of its BY.
    if after_name and Tree.EOF in mismatch.expected:
        if found in (Tree.LPAR, Tree.LBRACKET):
            return "BY takes the names of attributes, and no functions, as in `BY node`."
        if found == Tree.BY:
            return "Write one BY, with commas between the attributes: `BY a, b`."
        if mismatch.tokens[mismatch.index - 1].text.upper() == "EACH" and found == Tree.ID:
            return f"Write `BY {clip(mismatch.found.text)}`, without EACH."
        named = found == Tree.ID and mismatch.kind(1) in (Tree.EOF, *CLAUSES)
        if found == Tree.AND or named:
            return "Write commas between the attributes: `BY node, site`."
    return None


def _lists(mismatch: Mismatch) -> str | None:
    if mismatch.kind(-1) == Tree.IN and mismatch.found.type not in KEYWORDS | {Tree.COMMA}:
        return 'Write the list after IN in parentheses: `IN ("a", "b")`.'
    is_member = mismatch.found.type in (Tree.ID, Tree.STRING, Tree.NUMBER)
    if is_member and mismatch.rule in _LISTED and {Tree.COMMA, Tree.RPAR} <= mismatch.expected:
        return "Write commas between the values: `node IN (a, b)`."
    if mismatch.kind(-2) == Tree.IN and mismatch.expected == {Tree.LPAR}:
        member = clip(mismatch.tokens[mismatch.index - 1].text)
        return f"Write the list after IN in parentheses: `IN ({member})`."
    if mismatch.found.type == Tree.COMMA and mismatch.after_value:
        clauses = [token.type for token in mismatch.tokens[: mismatch.index]]
        if Tree.WHEN in clauses and Tree.WITH not in clauses:
            return "Write several values as a list: `node IN (a, b)`."
        if mismatch.kind(1) == Tree.ID and Tree.WITH not in clauses:
            return "Write an insight for each value: `a = COMPUTE …; b = COMPUTE …`."
    return None


def _placement_of_clause(mismatch: Mismatch) -> str | None:
    if mismatch.found.type == Tree.FROM and mismatch.after_value:
        return "Write FROM in the function: `AVG(metric FROM (entity))`."
    if mismatch.found.type in (Tree.COMMA, Tree.AND) and Tree.WITH in mismatch.expected:
        following = mismatch.tokens[min(mismatch.index + 1, len(mismatch.tokens) - 1)]
        if following.text.upper() in OPTIONS:
            return f"Write WITH before the first option: `WITH {following.text.upper()} …`."
    if mismatch.word in OPTIONS and Tree.WITH in mismatch.expected:
        return f"Write WITH before the first option: `WITH {mismatch.word} …`."
    if mismatch.word in ("PER", "ON") and mismatch.after_value:
        after = mismatch.tokens[min(mismatch.index + 1, len(mismatch.tokens) - 1)]
        if after.type == Tree.NUMBER or is_unit(after.text):
            return f"Write EVERY instead of {mismatch.word}, as in `EVERY 5 MINUTES`."
        return f"Write BY instead of {mismatch.word}."
    if mismatch.found.type == Tree.ID and mismatch.kind(-1) == Tree.ID and mismatch.after_value:
        before = mismatch.tokens[mismatch.index - 1].text.upper()
        if before in _CALLED:
            if mismatch.word == "OF" and mismatch.kind(1) == Tree.ID:
                metric = clip(mismatch.tokens[mismatch.index + 1].text)
                return f"Write the argument in parentheses: `{before}({metric})`."
            return f"Write the argument in parentheses: `{before}({clip(mismatch.found.text)})`."
    return None


def _time(mismatch: Mismatch) -> str | None:
    before = {token.type for token in mismatch.tokens[max(0, mismatch.index - 5) : mismatch.index]}
    if Tree.AT in before and mismatch.found.type not in CLAUSES and not _near(mismatch):
        return "Write a time of day as in `EVERY 1 DAYS AT 12:00 GMT`."
    return None


def _sql(mismatch: Mismatch) -> str | None:
    before = mismatch.tokens[max(mismatch.index - 1, 0)].text
    if "SELECT" in (mismatch.tokens[0].text.upper(), before.upper(), mismatch.word):
        return f"This is not SQL: write {SHAPE}."
    meant = _SQL.get(mismatch.word)
    if meant is None:
        return None
    following = [each.text.upper() for each in mismatch.tokens[mismatch.index + 1 :][:2]]
    if following[:1] == ["BY"] and following[-1] in BY_TIME:
        return "Results are at the ticks of EVERY: write `EVERY 10 SECONDS` instead of GROUP BY."
    if following[:1] and following[0] in TIME_COLUMNS:
        return WORDS["WINDOW"]
    written = "GROUP BY" if following[:1] == ["BY"] else mismatch.word
    if mismatch.after_value or (meant == "WHEN" and Tree.WHEN in mismatch.expected):
        return f"Write {meant} instead of {written}."
    if Tree.RPAR in mismatch.expected:
        if meant == "WHEN" and mismatch.kind(-1) == Tree.UNIT:
            return "Write the condition before the window: `AVG(x WHEN > 5, 1 MINUTE)`."
        return f"Write {meant} instead of {written}."
    is_last = Tree.WITH in mismatch.expected and Tree.EVERY not in mismatch.expected
    return f"Write {meant} before EVERY, instead of {written}." if is_last else None


def _separator(mismatch: Mismatch) -> str | None:
    kinds = (mismatch.found.type, mismatch.kind(1), mismatch.kind(2))
    starts = mismatch.word == "FUNCTION" or kinds in (
        (Tree.ID, Tree.ASSIGN, Tree.COMPUTE),
        (Tree.ID, Tree.COLON, Tree.STREAM),
    )
    return "Put a `;` between two statements." if starts and mismatch.index else None


def _definition(mismatch: Mismatch) -> str | None:
    first, second = mismatch.tokens[0], mismatch.tokens[min(1, len(mismatch.tokens) - 1)]
    if second.type == Tree.COLON:
        if mismatch.found.type == Tree.ASSIGN and mismatch.index == 2:
            return "Write a single `=` between the name and COMPUTE."
        if mismatch.found.type == Tree.COMPUTE:
            return "Write `=` to define an insight, and `:` to define a stream."
        return 'A stream looks like this: `name: STREAM FROM storage(region="north")`.'
    if first.text.upper() == "FUNCTION" and second.type != Tree.ASSIGN:
        if mismatch.found.type == Tree.RPAR and mismatch.kind(-1) == Tree.LPAR:
            return "A function has at least one parameter: `FUNCTION twice(x) { 2 * x }`."
        return (
            _parenthesis(mismatch) or "A function looks like this: `FUNCTION twice(x) { 2 * x }`."
        )
    return None


def _header(mismatch: Mismatch) -> str | None:
    if mismatch.expected == {Tree.ASSIGN, Tree.COLON}:
        if Tree.COMPUTE in (mismatch.kind(0), mismatch.kind(1), mismatch.kind(2)):
            return "Write a single `=` between the name and COMPUTE."
        return f"An insight looks like this: {SHAPE}."
    if mismatch.expected == {Tree.COMPUTE} and not _near(mismatch):
        return "Write COMPUTE after the `=`."
    if mismatch.index == 0 and mismatch.found.type == Tree.COMPUTE:
        return f"Give the insight a name: {SHAPE}."
    if mismatch.index == 0 and mismatch.found.type == Tree.STRING:
        return "Write the name of an insight without quotes."
    if mismatch.index == 0 and mismatch.word == "INSIGHT":
        return f"Begin with the name of the insight: {SHAPE}."
    if mismatch.index == 0 and mismatch.found.type in KEYWORDS | {Tree.KEYED}:
        return "A keyword cannot name an insight."
    return None


def _option(mismatch: Mismatch) -> str | None:
    seen = [token.type for token in mismatch.tokens[: mismatch.index + 1]]
    begun = [kind for kind in seen if kind in OPTION_WORDS]
    if mismatch.expected >= OPTION_WORDS:
        near = difflib.get_close_matches(mismatch.word, OPTIONS, n=1)
        if near:
            return f"Did you mean {near[0]}?"
        if begun and begun[-1] == Tree.ALLOW:
            return "Put a condition with AND into parentheses: `ALLOW WHEN (x > 1 AND y > 1)`."
        return f"The options are {', '.join(w for w in OPTIONS if w not in _DEPENDENT)}."
    within = mismatch.rule not in (Tree.RULE_term, Tree.RULE_scope, Tree.RULE_statement)
    known = begun and Tree.WITH in seen and Tree.EOF not in mismatch.expected
    if known and within and mismatch.found.type not in CLAUSES:
        return f"Write, for example, `{_EXAMPLES[begun[-1]]}`."
    is_next = mismatch.found.type == Tree.COMMA or mismatch.word in OPTIONS
    joins = is_next and Tree.WITH in seen and Tree.JOINT in mismatch.expected
    return "Write AND between two options." if joins else None


def _unit(mismatch: Mismatch) -> str | None:
    if Tree.NUMBER in mismatch.expected and is_unit(mismatch.found.text):
        return f"Write a number before the unit: `1 {clip(mismatch.found.text)}`."
    if mismatch.kind(-1) != Tree.NUMBER or mismatch.kind(-2) == Tree.COLON:
        return None
    near = nearest_unit(mismatch.found.text) if mismatch.found.type == Tree.ID else None
    if near and not _near(mismatch):
        return f"Did you mean `{near}`?"
    if mismatch.expected == {Tree.UNIT}:
        return f"Write a unit after the number: {', '.join(MILLIS)}."
    return None


def _clause_order(mismatch: Mismatch) -> str | None:
    if mismatch.found.type in CLAUSES and Tree.EOF in mismatch.expected:
        return "Write the clauses in this order, each at most once: BY, WHEN, EVERY, WITH."
    return None


def _inner_clause(mismatch: Mismatch) -> str | None:
    grouped = any(token.type == Tree.BY for token in mismatch.tokens[: mismatch.index])
    if mismatch.found.type in ARITHMETIC and Tree.STAR not in mismatch.expected and grouped:
        return "Put an expression with its own BY into parentheses: `(… BY node) / 2`."
    return None


def _parenthesis(mismatch: Mismatch) -> str | None:
    opened = []
    for token in mismatch.tokens[: mismatch.index]:
        if token.type in _OPENING.values():
            opened.append(token)
        elif token.type in _OPENING:
            opened.pop()
    closing = mismatch.found.type in _OPENING
    if closing and not opened:
        sign = "parenthesis" if mismatch.found.type == Tree.RPAR else "bracket"
        return f"No {sign} is open here."
    ends = closing or mismatch.found.type in CLAUSES | {Tree.EOF, Tree.LPAR}
    if ends and mismatch.expected & {Tree.RPAR, Tree.RBRACKET, Tree.RBRACE} and opened:
        where = opened[-1]
        return f"Close the `{where.text}` of line {where.line}, column {where.column}."
    return None


def _window(mismatch: Mismatch) -> str | None:
    if {Tree.COMMA, Tree.RPAR} <= mismatch.expected and mismatch.found.type == Tree.NUMBER:
        return "Put a `,` between the metric and the window."
    if mismatch.found.type == Tree.SEMICOLON and Tree.COMMA in mismatch.expected:
        return "Write `,` between the arguments, instead of `;`."
    return None


def _entities(mismatch: Mismatch) -> str | None:
    if mismatch.rule == Tree.RULE_entities and mismatch.expected == {Tree.LPAR}:
        return f"Put the entities into parentheses: `FROM ({clip(mismatch.found.text)})`."
    return None


def _quotes(mismatch: Mismatch) -> str | None:
    if mismatch.found.type in KEYWORDS and mismatch.rule in _NAMING:
        return f'A name that is a keyword needs quotes: `"{clip(mismatch.found.text)}"`.'
    if mismatch.kind(-1) == Tree.IN and mismatch.kind(-2) in (Tree.LPAR, Tree.COMMA, Tree.COMPUTE):
        return 'A name that is a keyword needs quotes: `"in"`.'
    wants_text = mismatch.rule in _LISTED or Tree.STRING in mismatch.expected - {Tree.ID}
    if mismatch.found.type == Tree.ID and wants_text and Tree.ID not in mismatch.expected:
        return f'A text needs quotes: `"{clip(mismatch.found.text)}"`.'
    odd = mismatch.found.type in (Tree.MINUS, Tree.SLASH, Tree.ID)
    if odd and not mismatch.after_value and mismatch.kind(-1) == Tree.ID:
        return "Quote a name that has spaces, `-` or `/` in it."
    return None


def _keyword(mismatch: Mismatch) -> str | None:
    near = _near(mismatch)
    return f"Did you mean {near}?" if near else None


def _near(mismatch: Mismatch) -> str | None:
    """Return the expected keyword most similar to the found word; None: no keyword is similar."""
    if mismatch.found.type != Tree.ID:
        return None
    kinds = mismatch.expected & (KEYWORDS | {Tree.STREAM, Tree.PER, Tree.ON})
    possible = [Tree.symbolicNames[kind] for kind in kinds]
    return next(iter(difflib.get_close_matches(mismatch.word, possible, n=1)), None)


_HINTS: tuple[Callable[[Mismatch], str | None], ...] = (
    _sql,
    invalid_name,
    _separator,
    _definition,
    _header,
    _time,
    compared_by_word,
    compared_with_list,
    unclear_number,
    _other_language,
    _attributes,
    _lists,
    _placement_of_clause,
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
