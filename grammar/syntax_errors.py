"""Diagnostics of syntax errors: the token found, and the tokens expected."""

from grammar.diagnostics import Diagnostic, clip, diagnostic_at
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.hints import hint_for
from grammar.keywords import OPTION_WORDS
from grammar.mismatch import ARITHMETIC, COMPARATORS, KEYWORDS, LITERALS, Mismatch
from grammar.scanner import LexicalToken

_VALUE_STARTERS = (
    LITERALS | COMPARATORS | {Tree.LPAR, Tree.ID, Tree.INSIGHT, Tree.MINUS, Tree.NOT, Tree.IN}
)
_INFIXES = ARITHMETIC | COMPARATORS | {Tree.IN, Tree.NOT, Tree.AND, Tree.OR}
_NAMED = {
    Tree.RULE_statement: "the name of an insight",
    Tree.RULE_term: "the name of an insight",
    Tree.RULE_parameter: "a parameter",
    Tree.RULE_piece: "an attribute",
    Tree.RULE_grouping: "an attribute",
    Tree.RULE_listing: "the name of a FUNCTION",
    Tree.RULE_entities: "an entity",
    Tree.RULE_settings: "a key",
    Tree.RULE_setting: "a key",
    Tree.RULE_option: "a name",
    Tree.RULE_rhythm: "a time zone",
}
_IN_ORDER = (
    Tree.ASSIGN,
    Tree.COLON,
    Tree.STREAM,
    Tree.COMPUTE,
    Tree.IN,
    Tree.FROM,
    Tree.ON,
    Tree.PER,
    Tree.COMMA,
    Tree.LPAR,
    Tree.LBRACE,
    Tree.RPAR,
    Tree.RBRACKET,
    Tree.BY,
    Tree.WHEN,
    Tree.EVERY,
    Tree.WITH,
    Tree.JOINT,
    Tree.RBRACE,
)
_MEANT = {
    "&": "Write AND.",
    "|": "Write OR.",
    "!": "Write NOT.",
    "#": "Comments start with `//`.",
    "%": "Write a number without `%`, in the unit of its metric; options take shares: 0.2 is 20 "
    "percent. There is no remainder.",
    "^": "There is no power: `SQR(x)` is the square.",
    "~": 'Texts are compared as a whole: write `==`, or `IN ("a", "b")`.',
    ".": "A name neither begins nor ends with a dot. A call is `AVG(x, 5 MINUTES)`.",
    "?": "There is no choice by `?`: write an insight with a WHEN for each case.",
    "@": "Write an offset as the second interval of a function: `AVG(x, 5 MINUTES, 1 HOURS)`.",
    "$": "Texts have no variables: write the name or the number itself.",
}
_PAIRS = {"!~": _MEANT["~"], "..": "Write two comparisons: `> 5 AND < 10`."}
_MEANT |= dict.fromkeys("“”„‘’`´", 'Use straight quotes: `"`.')
_MEANT |= dict.fromkeys("‐‑‒–—−", "Use a plain minus: `-`.")
_PIPE = "There are no pipes: write one expression, as in `AVG(x, 5 MINUTES) BY node WHEN > 5`."
_STRAY = "Remove it, or put the name or the text that contains it in quotes."
_FOREIGN = "Names consist of a-z, 0-9, `_` and `.`; put other names of metrics in quotes."


def diagnose(mismatch: Mismatch) -> Diagnostic:
    """Return the diagnostic of a statement with a syntax error."""
    found = mismatch.found
    message = f"found {_quoted(found)}, expected {_expectation(mismatch)}"
    return diagnostic_at(found.span, message, hint_for(mismatch))


def diagnose_token(token: LexicalToken, following: LexicalToken) -> Diagnostic | None:
    """Return the diagnostic of an invalid token; None: the token is valid.

    ``following``: the next token.
    """
    if token.type == Tree.UNCLOSED_COMMENT:
        return diagnostic_at(token.span, "this comment has no end", "End it with `*/`.")
    if token.type == Tree.UNCLOSED_STRING:
        end = f"End it with `{token.text[0]}` on its line; `\\n` in it stands for a line break."
        return diagnostic_at(token.span, "this text has no end", end)
    if token.type == Tree.UNKNOWN:
        char = token.text
        shown = char if char.isprintable() else f"U+{ord(char):04X}"
        hint = _MEANT.get(char, _STRAY if char.isascii() else _FOREIGN)
        pair = char + following.text if following.offset == token.offset + 1 else char
        hint = _PAIRS.get(pair, hint)
        if char == "|" and (following.text != "|" or following.offset != token.offset + 1):
            hint = _PIPE
        return diagnostic_at(token.span, f"the character `{shown}` has no meaning here", hint)
    return None


def _quoted(token: LexicalToken) -> str:
    if token.type == Tree.EOF:
        return f"`{token.text}`" if token.text else "the end of the text"
    return (
        f"the keyword {token.text.upper()}" if token.type in KEYWORDS else f"`{clip(token.text)}`"
    )


def _expectation(mismatch: Mismatch) -> str:
    """Return a description of the set of expected tokens."""
    phrases = []
    expected = mismatch.expected
    if {Tree.NUMBER, Tree.LPAR} <= expected:
        after_when = mismatch.kind(-1) in (Tree.WHEN, Tree.AND, Tree.OR, Tree.NOT)
        phrases.append("a condition" if after_when else "a value")
        expected -= _VALUE_STARTERS
    if mismatch.after_value or Tree.STAR in expected:
        phrases.append("an operator")
        expected -= _INFIXES
    if expected >= OPTION_WORDS:
        phrases.append("an option")
    if {Tree.NUMBER, Tree.STRING} <= expected:
        phrases.append("a value")
    elif Tree.NUMBER in expected:
        phrases.append("a number")
    elif Tree.ID in expected:
        phrases.append(_name_expected(mismatch))
    elif Tree.STRING in expected:
        phrases.append("a text in quotes")
    if expected == {Tree.UNIT}:
        phrases.append("a unit of time")
    phrases.extend(_spelled(kind) for kind in _IN_ORDER if kind in expected)
    if Tree.EOF in expected:
        phrases.append(f"the end of the {_statement(mismatch)}")
    return _join_by_or(phrases)


def _name_expected(mismatch: Mismatch) -> str:
    if mismatch.rule == Tree.RULE_statement and mismatch.index:
        kinds = {Tree.FROM: "a provider", Tree.FUNCTION: "the name of a function"}
        return kinds.get(mismatch.kind(-1) or 0, "a parameter")
    if mismatch.kind(-1) == Tree.ON:
        return "COMPUTATIONS or ACCURACY"
    return _NAMED[mismatch.rule]


def _statement(mismatch: Mismatch) -> str:
    kinds = {token.type for token in mismatch.tokens[:3]}
    if Tree.STREAM in kinds:
        return "stream definition"
    return "function" if Tree.FUNCTION in kinds else "insight"


def _spelled(kind: int) -> str:
    if Tree.COLON <= kind <= Tree.NE:  # the signs
        return f"`{Tree.literalNames[kind][1:-1]}`"
    return "AND" if kind == Tree.JOINT else str(Tree.symbolicNames[kind])


def _join_by_or(phrases: list[str]) -> str:
    *others, last = phrases
    return f"{', '.join(others)} or {last}" if others else last
