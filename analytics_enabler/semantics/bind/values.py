"""Binding of values and conditions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from analytics.operators.registry import installed
from analytics.plan.attributes import canonical
from analytics.plan.functions import BUILT_IN, GEOHASH_LENGTH, Parameters, spec_of
from analytics_enabler.semantics.bind.attribute_reads import (
    bind_derivation,
    bind_label,
    metric_of,
    position_of_attributes,
    position_of_text,
    type_of_constant,
    unresolved,
)
from analytics_enabler.semantics.bind.bound_tree import (
    AttributeRead,
    BoundAggregation,
    BoundArithmetic,
    BoundComparison,
    BoundCondition,
    BoundInsightReference,
    BoundMembership,
    BoundNegation,
    BoundReduction,
    BoundScope,
    BoundTickSeries,
    BoundValue,
    BoundWithin,
    Complement,
    Conjunction,
    Constant,
    CurrentValue,
    Disjunction,
    PointSource,
    Properties,
    ScalarCall,
    Subject,
    Type,
    Unresolved,
)
from analytics_enabler.semantics.bind.label_conditions import with_types
from analytics_enabler.semantics.bind.names import (
    MetricNames,
    PointScope,
    ResultScope,
    Role,
    Scope,
    ValueScope,
    role,
)
from analytics_enabler.semantics.bind.parameters import bind_operator_parameters, bind_parameters
from analytics_enabler.semantics.bind.predicate_split import split
from analytics_enabler.semantics.bind.symbols import (
    AttributeFunction,
    InsightSymbol,
    ScalarFunction,
    ValueFunction,
    function_symbol,
    is_of_attributes,
    is_scalar,
)
from analytics_enabler.semantics.diagnostics import Diagnostics, did_you_mean, head, nearest
from grammar import ast
from grammar.other_languages import function_hint
from grammar.trees import references, terms

Symbols = Mapping[str, InsightSymbol | None]
"""Name of a referenced insight -> symbol; None for an unresolved reference."""


@dataclass(frozen=True, slots=True)
class ValueBinder:
    """Binds the values and conditions of one insight.

    ``metrics``: the names that mean metrics in conditions on results. ``outliers``: the parameters
    of OUTLIER_DETECTION; None: the insight has no option ALGORITHM. ``within``: conditions that all
    points satisfy, because they belong to the stream whose name stands after COMPUTE.
    """

    metrics: MetricNames
    symbols: Symbols
    outliers: Parameters | None
    diagnostics: Diagnostics
    within: tuple[ast.Condition, ...] = ()

    def value(self, node: ast.Expression, scope: Scope, *, beside_word: bool = False) -> BoundValue:
        """Return the bound value of an expression.

        ``beside_word``: whether the value is compared with a text or a boolean.
        """
        match node:
            case ast.Number(value) | ast.Text(value) | ast.Boolean(value):
                properties = Properties(type_of_constant(value))
                return Constant(value, span=node.span, properties=properties)
            case ast.Negate():
                operand = self.value(node.operand, scope)
                return BoundNegation(operand, span=node.span, properties=_combined([operand]))
            case ast.Binary():
                left, right = self.value(node.left, scope), self.value(node.right, scope)
                properties = _combined([left, right])
                return BoundArithmetic(
                    node.operator, left, right, span=node.span, properties=properties
                )
            case ast.Name():
                return self._name(node, scope, beside_word)
            case ast.FunctionCall(function) if not isinstance(scope, ValueScope) and (
                is_of_attributes(function)
            ):
                return bind_derivation(node, self.diagnostics)
        match scope:
            case ValueScope():
                return self._value(node, scope)
            case ResultScope(values, subject):
                return subject if isinstance(node, ast.Elided) else self._value(node, values)
            case PointScope():
                return self._point_value(node)

    def condition(self, node: ast.Condition, scope: ResultScope | PointScope) -> BoundCondition:
        """Return the bound condition."""
        match node:
            case ast.Compare():
                word = isinstance(node.left, _Word) or isinstance(node.right, _Word)
                text = node.operator in ("==", "!=") and (
                    isinstance(node.left, ast.Text) or isinstance(node.right, ast.Text)
                )
                left = self._operand(node.left, scope, word, text)
                right = self._operand(node.right, scope, word, text)
                return BoundComparison(node.operator, left, right, span=node.span)
            case ast.ListMembership(called=ast.FunctionCall() as called) if is_of_attributes(
                called.function
            ):
                options = bind_derivation(called, self.diagnostics)
                if isinstance(options, Unresolved):
                    return self._unresolved_list(node, scope)
                word = True  # the lists of most operators contain texts
                operand = self._operand(node.operand, scope, word, word)
                return BoundWithin(operand, options, node.negated, span=node.span)
            case ast.ListMembership(called=ast.FunctionCall() as called):
                self._report_unknown_list(called)
                return self._unresolved_list(node, scope)
            case ast.ListMembership():
                word = any(isinstance(member, _Word) for member in node.members)
                text = all(isinstance(member, ast.Text) for member in node.members)
                operand = self._operand(node.operand, scope, word, text)
                return BoundMembership(operand, node.members, node.negated, span=node.span)
            case ast.AndCondition():
                bound = tuple(self.condition(term, scope) for term in node.terms)
                return Conjunction(bound, span=node.span)
            case ast.OrCondition():
                bound = tuple(self.condition(term, scope) for term in node.terms)
                return Disjunction(bound, span=node.span)
            case ast.NotCondition():
                return Complement(self.condition(node.operand, scope), span=node.span)

    def _operand(
        self, node: ast.Expression, scope: ResultScope | PointScope, word: bool, text: bool
    ) -> BoundValue:
        """Return the bound side of a comparison.

        ``word``, ``text``: whether it is compared with a text or a boolean, or with a text. The
        text of a point is its label with the name of the metric.
        """
        if text and isinstance(scope, PointScope) and scope.own_metric is not None:
            metric = scope.own_metric
            if isinstance(node, ast.Elided) or node == ast.Name(metric):
                return AttributeRead(metric, metric, span=node.span, properties=Properties(None))
        return self.value(node, scope, beside_word=word)

    def results(
        self,
        when: ast.Condition | None,
        value: BoundValue,
        scope: ValueScope,
        latest: PointSource | None = None,
    ) -> list[BoundCondition]:
        """Return the bound terms of a WHEN that restricts ``value``; [] without a WHEN.

        ``latest``: see ``ResultScope``.
        """
        subject = Subject(span=value.span, properties=value.properties)
        inner = ResultScope(scope, subject, self.metrics, latest)
        return [with_types(self.condition(term, inner)) for term in terms(when)]

    def _name(self, node: ast.Name, scope: Scope, beside_word: bool) -> BoundValue:
        match role(node.name, scope, beside_word=beside_word):
            case Role.METRIC:
                stream = ast.MetricStream(node.name, span=node.span)
                return self._current(stream, _value_scope(scope))
            case Role.POINT_VALUE:
                return Subject(span=node.span)
            case Role.ATTRIBUTE:
                properties = Properties(None)
                name = canonical(node.name)
                match scope:
                    case ResultScope(values, latest=PointSource() as latest) if (
                        name not in values.labels
                    ):
                        return bind_label(node, latest, values.by, self.diagnostics)
                return AttributeRead(name, node.name, span=node.span, properties=properties)
            case Role.OWN_METRIC:
                self.diagnostics.error(
                    node.span,
                    f"`{node.name}` is the metric itself, not an attribute of its points",
                    f"Remove the name to compare the value: `{node.name} WHEN > 0`.",
                )
                return unresolved(node)

    def _point_value(self, node: ast.Expression) -> BoundValue:
        if isinstance(node, ast.Elided):
            return Subject(span=node.span)
        if isinstance(node, ast.InsightReference) and self.symbols[node.name] is None:
            return unresolved(node)
        if isinstance(node, ast.FunctionCall) and function_symbol(node.function) is None:
            self._report_unknown(node, of_attributes=True)
            return unresolved(node)
        self.diagnostics.error(
            node.span,
            "a condition inside an aggregate is about single points",
            "Move the comparison to the WHEN at the end of the insight.",
        )
        return unresolved(node)

    def _value(self, node: ast.Expression, scope: ValueScope) -> BoundValue:
        match node:
            case ast.MetricStream():
                return self._current(node, scope)
            case ast.Scoped():
                return self._scoped(node, scope)
            case ast.FunctionCall():
                return self._call(node, scope)
            case ast.InsightReference(name):
                symbol = self.symbols[name]
                if symbol is None:
                    return unresolved(node)
                kind: Type = "a text" if symbol.yields_text else "a number"
                properties = Properties(kind, symbol.keys, reads=True)
                return BoundInsightReference(symbol, span=node.span, properties=properties)
            case _:
                raise AssertionError(node)  # the grammar has no such value

    def source(self, stream: ast.MetricStream) -> PointSource:
        """Return the bound points of a metric."""
        scope = PointScope(own_metric=stream.metric)
        bound = tuple(self.condition(term, scope) for term in terms(stream.when))
        entities = tuple(sorted(set(stream.members)))
        return self.restricted(PointSource(stream.metric, entities, bound, span=stream.span))

    def restricted(self, source: PointSource) -> PointSource:
        """Return those points of a source that are ``within`` the stream after COMPUTE."""
        scope = PointScope(own_metric=source.metric)
        own = tuple(self.condition(each, scope) for each in self.within)
        return replace(source, terms=(*source.terms, *own)) if own else source

    def _current(self, stream: ast.MetricStream, scope: ValueScope) -> BoundValue:
        properties = Properties(keys=frozenset(scope.by), reads=True)
        source = self.source(stream)
        return CurrentValue(source, scope.by, span=stream.span, properties=properties)

    def _scoped(self, node: ast.Scoped, scope: ValueScope) -> BoundValue:
        by = distinct((*scope.by, *map(canonical, node.by)))
        added = tuple(added_keys(node.expression, self.symbols))
        inner = ValueScope(by, scope.labels | {*map(canonical, node.by), *added})
        value = self.value(node.expression, inner)
        bound = self.results(node.when, value, inner)
        keys = distinct((*by, *added))
        when = split(bound, keys, self._split_diagnostics(node.expression))
        reads = value.reads or any(_reads(term) for term in when.on_results)
        properties = replace(value.properties, reads=reads)
        return BoundScope(value, by, when, node.by, span=node.span, properties=properties)

    def _split_diagnostics(self, node: ast.Expression) -> Diagnostics:
        # The keys of an unresolved insight are unknown, so any attribute may be one of a key.
        return Diagnostics() if has_unresolved(node, self.symbols) else self.diagnostics

    def _call(self, call: ast.FunctionCall, scope: ValueScope) -> BoundValue:
        symbol = function_symbol(call.function)
        if isinstance(symbol, AttributeFunction):
            self.diagnostics.error(
                head(call.span, len(call.function)),
                f"{call.function} derives from attributes of points, and is not a value of a "
                "metric",
                f'Write it in a condition, as in `WHEN {call.function}(…) == "…"`.',
            )
            return unresolved(call)
        if symbol is None:
            self._report_unknown(call)
        elif call.function == "GEOHASH" and (position := self._position(call, scope)) is not None:
            return position
        elif len(call.arguments) != symbol.arity:
            self._report_arity(call, symbol)
        else:
            return self._call_of_symbol(call, symbol, scope)
        arguments = tuple(self.value(each, scope) for each in call.arguments)
        properties = replace(_combined(arguments), type=None, resolved=False)
        return Unresolved(arguments, span=call.span, properties=properties)

    def _position(self, call: ast.FunctionCall, scope: ValueScope) -> BoundValue | None:
        """Return the geohash of a position; None if the argument is not a position.

        The argument is a metric whose text is a position, or two attributes of its points.
        """
        match call.arguments:
            case (ast.Position() as node,):
                points = ast.MetricStream(node.metric, node.members, node.when, span=node.span)
                source = self.source(points)
                position = position_of_attributes(node, source, scope.by)
            case (argument,) if (stream := metric_of(argument)) is not None:
                position = position_of_text(self.source(stream), scope.by)
            case _:
                return None
        parameters = bind_parameters(call, GEOHASH_LENGTH, self.diagnostics)
        return ScalarCall(
            "GEOHASH", (position,), parameters, call=call, span=call.span,
            properties=position.properties,
        )  # fmt: skip

    def _call_of_symbol(
        self, call: ast.FunctionCall, symbol: ValueFunction, scope: ValueScope
    ) -> BoundValue:
        parameters = self._parameters(call, symbol)
        if isinstance(symbol, ScalarFunction):
            operands = tuple(self.value(each, scope) for each in call.arguments)
            value_type: Type = "a text" if symbol.function == "GEOHASH" else "a number"
            return ScalarCall(
                symbol.function, operands, parameters, call=call, span=call.span,
                properties=replace(_combined(operands), type=value_type),
            )  # fmt: skip
        function = symbol.function
        properties = Properties(keys=frozenset(scope.by), reads=True)
        streams = [each for each in map(metric_of, call.arguments) if each is not None]
        if len(streams) == len(call.arguments):
            sources = tuple(map(self.source, streams))
            return BoundAggregation(
                function, sources, scope.by, parameters, call=call, span=call.span,
                properties=properties,
            )  # fmt: skip
        operands = tuple(self.value(each, scope) for each in call.arguments)
        properties = replace(
            properties,
            reads=any(each.reads for each in operands),
            resolved=all(each.resolved for each in operands),
        )
        spec = spec_of(function)
        over_ticks = call.window is not None or not spec.over_values or len(operands) > 1
        kind = BoundTickSeries if over_ticks and not spec.accumulated else BoundReduction
        return kind(
            function, operands, scope.by, parameters, call=call, span=call.span,
            properties=properties,
        )  # fmt: skip

    def _parameters(self, call: ast.FunctionCall, symbol: ValueFunction) -> Parameters:
        if isinstance(symbol, ScalarFunction):
            allowed = GEOHASH_LENGTH if symbol.function == "GEOHASH" else None
            return bind_parameters(call, allowed, self.diagnostics)
        if symbol.operator is not None:
            return bind_operator_parameters(symbol.operator, call, self.diagnostics)
        spec = spec_of(symbol.function)
        parameters = bind_parameters(call, spec.parameter, self.diagnostics)
        if not spec.by_options:
            return parameters
        if self.outliers is None:
            self.diagnostics.error(
                call.span,
                "OUTLIER_DETECTION needs the option ALGORITHM",
                "Add `WITH ALGORITHM pmcod AND K=50 AND R=0.5`: then an outlier has fewer than 50 "
                "other values within 0.5.",
            )
        return self.outliers or ()

    def _report_arity(self, call: ast.FunctionCall, symbol: ValueFunction) -> None:
        two = "two values" if call.function == "GEOHASH" else "two metrics"
        takes = "one value" if symbol.arity == 1 else two
        given = "one" if len(call.arguments) == 1 else f"{len(call.arguments)}"
        hint = f"Write `{call.function}({', '.join('xy'[: symbol.arity])})`."
        if symbol.arity == 1 and len(call.arguments) > 1:
            hint = f"{hint[:-1]}; an insight for each metric has the values of several metrics."
        match call:
            case ast.FunctionCall("GEOHASH", (_, _, ast.Number(length))):
                hint = f"Write the number of characters in brackets: `GEOHASH[{length:g}](x, y)`."
        self.diagnostics.error(
            call.span,
            f"{call.function} takes {takes}, not {given}",
            hint,
        )

    def _unresolved_list(
        self, node: ast.ListMembership, scope: ResultScope | PointScope
    ) -> Unresolved:
        operand = self.value(node.operand, scope)
        return Unresolved((operand,), span=node.span, properties=Properties(None, resolved=False))

    def _report_unknown_list(self, called: ast.FunctionCall) -> None:
        near = nearest(called.function, _operators_over_attributes())
        define = f"""Define it, as in `FUNCTION {called.function}(x) {{ ("a", "b") }}`."""
        self.diagnostics.error(
            head(called.span, len(called.function)),
            f"there is no FUNCTION `{called.function}` that stands for a list",
            did_you_mean(near) if near else define,
        )

    def _report_unknown(self, call: ast.FunctionCall, *, of_attributes: bool = False) -> None:
        """Report a function that does not exist.

        ``of_attributes``: whether only an operator over attributes can be meant.
        """
        found = installed()
        names = _operators_over_attributes()
        listed = "No package with such an operator over attributes of points is installed."
        if not of_attributes:
            names = BUILT_IN | {operator.name for operator in found.operators}
        if names:
            listed = f"Functions: {', '.join(sorted(names))}."
        near = nearest(call.function, names)
        foreign = None if of_attributes else function_hint(call.function)
        hint = foreign or (did_you_mean(near) if near else listed)
        for entry_point, problem in found.problems.items():
            hint += f" The installed operator {entry_point} cannot be used: {problem}."
        self.diagnostics.error(
            head(call.span, len(call.function)),
            f"there is no function `{call.function}`",
            hint,
        )


def _operators_over_attributes() -> frozenset[str]:
    return frozenset(each.name for each in installed().operators if each.attributes)


def added_keys(node: ast.Expression, symbols: Symbols) -> Iterator[str]:
    """Yield the key attributes that an expression adds by a BY in parentheses or by an INSIGHT."""
    match node:
        case ast.Scoped():
            yield from map(canonical, node.by)
            yield from added_keys(node.expression, symbols)
        case ast.Binary():
            yield from added_keys(node.left, symbols)
            yield from added_keys(node.right, symbols)
        case ast.Negate():
            yield from added_keys(node.operand, symbols)
        case ast.FunctionCall() if is_scalar(node.function):
            for argument in node.arguments:
                yield from added_keys(argument, symbols)
        case ast.InsightReference(name):
            symbol = symbols[name]
            yield from () if symbol is None else symbol.definition.by
        case _:
            return


def has_unresolved(node: ast.SyntaxNode, symbols: Symbols) -> bool:
    """Return whether a tree has a reference to an unresolved insight."""
    if None not in symbols.values():
        return False
    return any(symbols[each.name] is None for each in references(node))


def distinct(names: Iterable[str]) -> tuple[str, ...]:
    """Return names without repetitions, in the order of their first occurrence."""
    return tuple(dict.fromkeys(names))


_Word = ast.Text | ast.Boolean


def _value_scope(scope: Scope) -> ValueScope:
    match scope:
        case ValueScope():
            return scope
        case ResultScope(values):
            return values
        case PointScope():
            raise AssertionError(scope)  # no name is a metric there


def _combined(operands: Iterable[BoundValue]) -> Properties:
    """Return the properties of a number that is calculated from the given operands."""
    first, *others = operands
    keys, reads, resolved = first.keys, first.reads, first.resolved
    for each in others:
        keys |= each.keys
        reads |= each.reads
        resolved &= each.resolved
    return Properties("a number", keys, reads, resolved)


def _reads(condition: BoundCondition) -> bool:
    match condition:
        case BoundComparison():
            return condition.left.reads or condition.right.reads
        case BoundMembership() | BoundWithin():
            return condition.operand.reads
        case Conjunction(terms) | Disjunction(terms):
            return any(map(_reads, terms))
        case Complement(operand):
            return _reads(operand)
        case Unresolved():
            return condition.reads
