"""From ANTLR's parse tree to the abstract syntax tree, and what is wrong in spite of the syntax."""

from grammar.ast import FunctionDefinition, Insight, Statement, StreamDefinition
from grammar.literals import Context, Literals, span_of
from grammar.options import Options
from grammar.problems import Problem
from grammar.terms import Terms


class Builder:
    """Builds one statement; ``problems`` collects what is wrong, and the result is then void."""

    def __init__(self, problems: list[Problem]) -> None:
        self._literals = Literals(problems)
        self._terms = Terms(self._literals)

    def statement(self, tree: Context) -> Statement:
        """Build what a ``statement`` tree is."""
        if tree.body is not None:
            return self._function(tree)
        return self._stream(tree) if tree.provider is not None else self._insight(tree)

    def _insight(self, tree: Context) -> Insight:
        return Insight(
            name=tree.name.text,
            expression=self._terms.expression(tree.value),
            by=self._literals.names(tree.by.attributes) if tree.by else (),
            when=self._terms.condition(tree.when) if tree.when else None,
            every=self._literals.rhythm(tree.every) if tree.every else None,
            options=Options(self._literals, self._terms).build(tree.chosen),
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
            body=self._terms.scoped(tree.body),
            span=span_of(tree),
        )
