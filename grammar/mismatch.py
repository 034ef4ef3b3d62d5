"""The mismatch at which the parser stopped, and sets of token types."""

from dataclasses import dataclass

from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.scanner import LexicalToken

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
class Mismatch:
    """A syntax error: the parser stopped at ``tokens[index]``.

    ``tokens``: the tokens of the statement; the last token is EOF. ``rule``: the index of the
    grammar rule at which the parser stopped. ``expected``: the types of tokens that would have
    matched.
    """

    tokens: list[LexicalToken]
    index: int
    rule: int
    expected: frozenset[int]

    @property
    def found(self) -> LexicalToken:
        """The token that did not match."""
        return self.tokens[self.index]

    @property
    def word(self) -> str:
        """The text of the token that did not match, in upper case."""
        return self.found.text.upper()

    def kind(self, steps: int) -> int | None:
        """Return the type of the token ``steps`` tokens after the mismatch.

        ``steps``: negative for a token before the mismatch. Return None if the statement has no
        such token.
        """
        index = self.index + steps
        return self.tokens[index].type if 0 <= index < len(self.tokens) else None

    @property
    def after_value(self) -> bool:
        """Whether a complete value or condition, outside parentheses, precedes the mismatch."""
        if not self.expected & {Tree.EOF, Tree.RBRACE}:
            return False
        before = (token.type for token in reversed(self.tokens[: self.index]))
        leads = (kind for kind in before if kind in _LEADS)
        return next(leads, Tree.EOF) in (Tree.COMPUTE, Tree.WHEN, Tree.LBRACE)
