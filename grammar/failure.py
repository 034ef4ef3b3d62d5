"""Where a statement stopped to make sense."""

from dataclasses import dataclass

from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.scanner import Token

COMPARATORS = frozenset({Tree.GT, Tree.GE, Tree.LT, Tree.LE, Tree.EQ, Tree.NE, Tree.ASSIGN})
LITERALS = frozenset({Tree.NUMBER, Tree.STRING, Tree.TRUE, Tree.FALSE})
ARITHMETIC = frozenset({Tree.PLUS, Tree.MINUS, Tree.STAR, Tree.SLASH})
CLAUSES = frozenset({Tree.BY, Tree.WHEN, Tree.EVERY, Tree.WITH})
KEYWORDS = CLAUSES | {
    Tree.AND,
    Tree.COMPUTE,
    Tree.FALSE,
    Tree.FROM,
    Tree.IN,
    Tree.NOT,
    Tree.OR,
    Tree.TRUE,
}
_LEADS = CLAUSES | {Tree.COMPUTE, Tree.LBRACE}


@dataclass(frozen=True, slots=True)
class Failure:
    """The parser stopped at ``tokens[index]``, within a grammar rule (its index).

    It could have gone on with any of the token types ``expected``; the last token is EOF.
    """

    tokens: list[Token]
    index: int
    rule: int
    expected: frozenset[int]

    @property
    def found(self) -> Token:
        """The token that could not stand there."""
        return self.tokens[self.index]

    @property
    def word(self) -> str:
        """Its text, in upper case."""
        return self.found.text.upper()

    def kind(self, steps: int) -> int | None:
        """Return the type of the token so many steps further on (or back), if there is one."""
        index = self.index + steps
        return self.tokens[index].type if 0 <= index < len(self.tokens) else None

    @property
    def after_value(self) -> bool:
        """Whether a complete value or condition, outside parentheses, stands before the token."""
        if not self.expected & {Tree.EOF, Tree.RBRACE}:
            return False
        before = (token.type for token in reversed(self.tokens[: self.index]))
        leads = (kind for kind in before if kind in _LEADS)
        return next(leads, Tree.EOF) in (Tree.COMPUTE, Tree.WHEN, Tree.LBRACE)
