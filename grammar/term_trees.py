"""Predicates of ANTLR's parse trees of the rules ``term`` and ``piece``."""

from grammar.comparison_hints import SIGNS
from grammar.generated.InsightsParser import InsightsParser as Tree
from grammar.literals import Context
from grammar.scanner import LexicalToken


def is_logical(tree: Context) -> bool:
    """Return whether a tree is joined by AND or OR, or negated by NOT."""
    tree = _without_parentheses(tree)
    return isinstance(tree, Tree.ConjunctionContext | Tree.DisjunctionContext | Tree.DenialContext)


def joins_values(tree: Context) -> bool:
    """Return whether AND or OR join only values, as in `x AND y`."""
    waiting = [tree]
    while waiting:
        last = _without_parentheses(waiting.pop())
        match last:
            case Tree.ConjunctionContext() | Tree.DisjunctionContext():
                waiting += [last.left, last.right]
            case (
                Tree.ComparisonContext()
                | Tree.ElidedComparisonContext()
                | Tree.ChoiceContext()
                | Tree.ElidedChoiceContext()
                | Tree.DenialContext()
            ):
                return False
    return True


def _without_parentheses(tree: Context) -> Context:
    while isinstance(tree, Tree.GroupContext) and tree.inner.by is None and tree.inner.when is None:
        tree = tree.inner.value
    return tree


def is_doubled_sign(tree: Context) -> bool:
    """Return whether two signs in succession mean one comparison."""
    right = tree.right
    return (
        isinstance(right, Tree.ElidedComparisonContext)
        and tree.operator.text + right.operator.text in SIGNS
    )


def is_interval(piece: Context) -> bool:
    """Return whether a piece is only a number with a unit, with or without a minus."""
    value = piece.value
    if isinstance(value, Tree.NegationContext):
        value = value.operand
    alone = piece.by is None and piece.when is None
    return alone and isinstance(value, Tree.AmountContext) and value.unit is not None


def joined_by_sign(tree: Context) -> str | None:
    """Return the text of names that a `-` or `/` joins without spaces; otherwise None."""
    if not isinstance(tree, Tree.ArithmeticContext) or tree.operator.text not in "-/":
        return None
    left, right = _joined_name(tree.left), _joined_name(tree.right)
    if left is None or right is None:
        return None
    sign, after = tree.operator, tree.right.start
    before = tree.left.stop
    adjacent = before.offset + len(before.text) == sign.offset and after.offset == sign.offset + 1
    return f"{left}{sign.text}{right}" if adjacent else None


def _joined_name(tree: Context) -> str | None:
    if isinstance(tree, Tree.WordContext):
        return None if tree.pieces or tree.from_ else str(tree.word.text)
    return joined_by_sign(tree)


def is_number(piece: Context) -> bool:
    """Return whether a piece is only a number, with or without a unit."""
    alone = piece.by is None and piece.when is None
    return alone and isinstance(piece.value, Tree.AmountContext)


def bare_name(piece: Context) -> LexicalToken | None:
    """Return the token of a piece that is only a name, with or without a WHEN; otherwise None."""
    value = piece.value
    named = isinstance(value, Tree.WordContext | Tree.QuotedContext) and value.from_ is None
    called = isinstance(value, Tree.WordContext) and bool(value.pieces)
    return value.word if named and not called and piece.by is None else None
