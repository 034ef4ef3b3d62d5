"""Decides for each BY whether it belongs to the operand before it, or to the whole expression.

A BY at the end of an expression belongs to the whole expression: ``SUM(x) / SUM(y) BY node``. If an
operator follows a BY, each BY of the expression belongs to the operand before it, without
parentheses: ``SUM(x) BY node / SUM(y) BY region``. In a condition, a BY after a call belongs to the
call.
"""

from dataclasses import dataclass, field

from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.scanner import LexicalToken

_NAMES = frozenset({Tree.ID, Tree.STRING})
_OPENING = frozenset({Tree.LPAR, Tree.LBRACE})
_CLOSING = frozenset({Tree.RPAR, Tree.RBRACE})
_CALLED = frozenset({Tree.LPAR, Tree.LBRACKET})
_CLAUSES = frozenset({Tree.COMPUTE, Tree.EVERY, Tree.WITH})
_INFIXES = frozenset({
    Tree.PLUS, Tree.MINUS, Tree.STAR, Tree.SLASH, Tree.GT, Tree.GE, Tree.LT, Tree.LE, Tree.EQ,
    Tree.NE, Tree.ASSIGN,
})  # fmt: skip
_LOGIC = frozenset({Tree.IN, Tree.NOT, Tree.AND, Tree.OR})


@dataclass(slots=True)
class _Expression:
    """An expression in a statement: its BYs, and whether an operator follows one of them.

    ``condition``: whether the expression is a condition; ``inner`` are its BYs that belong to the
    operand before them. ``opened``: the index of the parenthesis around the expression.
    """

    opened: int = -1
    condition: bool = False
    all: list[LexicalToken] = field(default_factory=list)
    inner: list[LexicalToken] = field(default_factory=list)

    def end(self) -> None:
        """Set the types of the BYs that belong to the operand before them."""
        for token in self.inner if self.condition else self.all if self.inner else ():
            token.type = Tree.KEYED


def classify_by(tokens: list[LexicalToken]) -> None:
    """Set the type of each BY of a statement in place; the last token is EOF."""
    if not any(token.type == Tree.BY for token in tokens):
        return
    around = [_Expression()]
    opened_by: dict[int, int] = {}
    listed_until = 0
    for index, token in enumerate(tokens):
        kind = token.type
        if kind in _OPENING:
            around.append(_Expression(index))
        elif kind in _CLOSING and len(around) > 1:
            opened_by[index] = around[-1].opened
            around.pop().end()
        elif kind == Tree.BY:
            listed_until = _list_end(tokens, index)
            around[-1].all.append(token)
            following = tokens[listed_until].type
            followed = following in _INFIXES or (around[-1].condition and following in _LOGIC)
            if followed or (around[-1].condition and _follows_call(tokens, index, opened_by)):
                around[-1].inner.append(token)
        elif kind in _CLAUSES or kind == Tree.WHEN or (kind == Tree.COMMA and index > listed_until):
            around[-1].end()
            around[-1] = _Expression(around[-1].opened, condition=kind == Tree.WHEN)
    for expression in around:
        expression.end()


def _list_end(tokens: list[LexicalToken], by: int) -> int:
    """Return the index of the token after the names that follow a BY; a call is no name."""
    end = by + 1
    while (
        tokens[end].type in _NAMES
        and tokens[end + 1].type == Tree.COMMA
        and tokens[end + 2].type in _NAMES
        and tokens[end + 3].type not in _CALLED
    ):
        end += 2
    return end + 1 if tokens[end].type in _NAMES else end


def _follows_call(tokens: list[LexicalToken], by: int, opened_by: dict[int, int]) -> bool:
    opened = opened_by.get(by - 1, 0)
    if tokens[by - 1].type != Tree.RPAR or opened < 2:
        return False
    if tokens[opened - 1].type == Tree.RBRACKET:
        return True
    return bool(tokens[opened - 1].type == Tree.ID and tokens[opened - 2].type != Tree.IN)
