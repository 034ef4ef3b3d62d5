"""Contextual keywords: words that are keywords only where the grammar allows no name."""

from grammar.by_clauses import classify_by
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.scanner import LexicalToken
from grammar.units import is_unit

OPTIONS: dict[str, int] = {
    Tree.symbolicNames[kind]: kind
    for kind in (
        Tree.ADAM,
        Tree.ALGORITHM,
        Tree.ALLOW,
        Tree.AWARENESS,
        Tree.CONFIDENCE,
        Tree.COST_CAP,
        Tree.K,
        Tree.MAX_ERROR,
        Tree.PLACEMENT_ON,
        Tree.R,
        Tree.SALIENCE,
        Tree.SAMPLE,
        Tree.SCHEDULER,
        Tree.SIGNATURE,
    )
}
"""First word of an option -> token type of the word."""

OPTION_WORDS = frozenset(OPTIONS.values())

# Each is a keyword only after tokens of these types.
_AFTER: dict[str, tuple[int, frozenset[int]]] = {
    "AT": (Tree.AT, frozenset({Tree.UNIT})),
    "DEDICATED": (
        Tree.DEDICATED,
        frozenset({Tree.NUMBER, Tree.STRING, Tree.ID, Tree.TRUE, Tree.FALSE}),
    ),
    "ON": (Tree.ON, frozenset({Tree.AWARENESS})),
    "PER": (Tree.PER, frozenset({Tree.NUMBER})),
    "STREAM": (Tree.STREAM, frozenset({Tree.COLON})),
}
_AMOUNTS = frozenset({Tree.NUMBER, Tree.PLUS, Tree.MINUS})
_OPENED_BY: dict[str, frozenset[int]] = {
    "ADAM": frozenset({Tree.AND, Tree.EOF}),
    "ALGORITHM": frozenset({Tree.ID, Tree.STRING}),
    "ALLOW": frozenset({Tree.WHEN}),
    "AWARENESS": frozenset({Tree.ID}),
    "K": frozenset({Tree.ASSIGN}),
    "PLACEMENT_ON": frozenset({Tree.ID, Tree.STRING}),
    "R": frozenset({Tree.ASSIGN}),
    "SCHEDULER": frozenset({Tree.ASSIGN}),
    "SIGNATURE": frozenset({Tree.ID, Tree.STRING}),
}
"""First word of an option -> types of the token after the word; without an entry: ``_AMOUNTS``."""
_BEFORE_STRETCH = frozenset({Tree.EVERY, Tree.COMMA, Tree.PER})  # misspelt units are units here
_START = LexicalToken(Tree.EOF, "", 0, 1, 1)


def classify_keywords(tokens: list[LexicalToken]) -> list[LexicalToken]:
    """Return the tokens of a statement, with the types of contextual keywords set.

    ``tokens``: the last token is EOF. The types of these tokens are changed in place. ``TOP-K``
    before a parenthesis or a bracket becomes one name.
    """
    classified: list[LexicalToken] = []
    depth, optional, allowing = 0, False, False
    outliers = any(token.text.upper() == "ALGORITHM" for token in tokens)
    before = last = _START
    for index, token in enumerate(tokens):
        following = tokens[min(index + 1, len(tokens) - 1)]
        kind = token.type
        if kind == Tree.ID:
            token.type = _kind(token, before.type, last.type, following.type)
        elif kind == Tree.WITH:
            depth, optional = 0, True
        elif kind == Tree.WHEN and optional and last.text.upper() == "ALLOW":
            allowing = True
        elif kind == Tree.AND and optional and depth == 0:
            if not allowing or _starts_option(tokens, index + 1, outliers=outliers):
                token.type = Tree.JOINT
        elif kind == Tree.LPAR:
            depth += 1
            _join_top_k(classified)
        elif kind == Tree.LBRACKET:
            _join_top_k(classified)
        elif kind == Tree.RPAR:
            depth -= 1
        classified.append(token)
        before, last = last, token
    classify_by(classified)
    return classified


def _starts_option(tokens: list[LexicalToken], index: int, *, outliers: bool) -> bool:
    """Return whether an option starts at an index, after an AND that follows ALLOW WHEN.

    Otherwise, the AND joins two parts of the condition of ALLOW. ``outliers``: whether the
    statement has the option ALGORITHM, to which K and R belong.
    """
    first, *others = tokens[index : index + 2]
    word = first.text.upper()
    if first.type != Tree.ID or word not in OPTIONS or not others:
        return False
    if word in ("K", "R") and not outliers:
        return False
    return others[0].type in _OPENED_BY.get(word, _AMOUNTS)


def _kind(token: LexicalToken, before: int, last: int, following: int) -> int:
    """Return the type of a word, given the types of the two previous tokens and the next token."""
    kind: int = Tree.ID
    word = token.text.upper()
    if last == Tree.NUMBER and before == Tree.COLON:
        pass  # the zone of a time of day
    elif last == Tree.NUMBER and (before in _BEFORE_STRETCH or is_unit(token.text)):
        kind = Tree.UNIT
    elif last in (Tree.WITH, Tree.JOINT):
        kind = OPTIONS.get(word, kind)
    elif following == Tree.ID and word == "INSIGHT":
        kind = Tree.INSIGHT
    elif following == Tree.ID and word == "FUNCTION" and last == Tree.EOF:
        kind = Tree.FUNCTION
    elif word in _AFTER and last in _AFTER[word][1]:
        kind = _AFTER[word][0]
    return kind


def _join_top_k(classified: list[LexicalToken]) -> None:
    if len(classified) < 3:
        return
    top, minus, k = classified[-3:]
    if (top.text.upper(), minus.text, k.text.upper()) == ("TOP", "-", "K") and (
        k.offset - top.offset == len("TOP-")
    ):
        joined = f"{top.text}-{k.text}"
        classified[-3:] = [LexicalToken(Tree.ID, joined, top.offset, top.line, top.column)]
