"""Builds syntax trees from ANTLR's parse trees, and diagnoses errors that the grammar allows."""

from collections.abc import Callable, Collection

from grammar.ast import (
    Expression,
    FunctionDefinition,
    InsightStatement,
    Statement,
    StreamDefinition,
    ValueList,
)
from grammar.diagnostics import Diagnostic
from grammar.expressions import ExpressionBuilder
from grammar.literals import Context, LiteralBuilder, span_of
from grammar.options import OptionBuilder


class StatementBuilder:
    """Builds the syntax tree of a statement.

    ``problems``: the list to which the builder appends diagnostics; a statement with a diagnostic
    is invalid. ``defined``: returns the names of the functions that the text defines.
    """

    def __init__(self, problems: list[Diagnostic], defined: Callable[[], Collection[str]]) -> None:
        self._literals = LiteralBuilder(problems)
        self._terms = ExpressionBuilder(self._literals, defined)

    def statement(self, tree: Context) -> Statement:
        """Return the statement that a parse tree of the rule ``statement`` represents."""
        if tree.takes:
            return self._function(tree)
        return self._stream(tree) if tree.provider is not None else self._insight(tree)

    def _insight(self, tree: Context) -> InsightStatement:
        return InsightStatement(
            name=tree.name.text,
            expression=self._terms.expression(tree.value),
            by=self._literals.names(tree.by.attributes) if tree.by else (),
            when=self._terms.condition(tree.when) if tree.when else None,
            every=self._literals.rhythm(tree.every) if tree.every else None,
            options=OptionBuilder(self._literals, self._terms).build(tree.chosen),
            span=span_of(tree),
        )

    def _stream(self, tree: Context) -> StreamDefinition:
        return StreamDefinition(
            name=tree.name.text,
            provider=tree.provider.text,
            settings=self._literals.settings(tree.given),
            span=span_of(tree),
        )

    def _function(self, tree: Context) -> FunctionDefinition:
        return FunctionDefinition(
            name=tree.name.text.upper(),
            parameters=tuple(each.text for each in tree.takes),
            body=self._body(tree),
            span=span_of(tree),
        )

    def _body(self, tree: Context) -> Expression | ValueList:
        if tree.listed is None:
            return self._terms.scoped(tree.body)
        return ValueList(self._literals.members(tree.listed), span=span_of(tree.listed))
