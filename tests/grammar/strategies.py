"""Hypothesis strategies of syntax trees for the whole language; each tree is that of some text."""

from datetime import time

from hypothesis import strategies as st

from analytics.plan.functions import BUILT_IN
from grammar.ast import (
    Accuracy,
    AdamOption,
    Allow,
    AndCondition,
    Awareness,
    Binary,
    Boolean,
    Compare,
    Condition,
    CostCapOption,
    Daily,
    Elided,
    Expression,
    FunctionCall,
    FunctionDefinition,
    InsightReference,
    InsightStatement,
    Interval,
    ListMembership,
    MetricStream,
    Name,
    Negate,
    NotCondition,
    Number,
    Option,
    OrCondition,
    Outliers,
    PlacementOn,
    PointCount,
    Salience,
    SampleOption,
    SchedulerOption,
    Scoped,
    Script,
    Setting,
    Signature,
    StreamDefinition,
    Text,
    ValueList,
)
from grammar.format import RESERVED
from grammar.functions import ALIASES, OPERATORS, SCALAR, WITH_PARAMETER
from grammar.keywords import OPTIONS
from grammar.units import MAX_MILLIS, MAX_POINTS

# Words that are keywords or units somewhere, and names everywhere else.
_double_agents = (
    st.sampled_from([*OPTIONS])
    | st.sampled_from(
        ["s", "m", "M", "minutes", "points", "at", "on", "per", "dedicated", "insight", "function"]
    )
    | st.sampled_from(["stream", "top", "add"])
)
words = (
    st.text("abM_", min_size=1, max_size=4).filter(lambda word: word.upper() not in RESERVED)
    | _double_agents
)
dotted = words | st.sampled_from(["cpu", "cpu.util", "pod.name", "core.0"])
names = dotted | st.text(min_size=1, max_size=12) | st.sampled_from(sorted(RESERVED))
name_lists = st.lists(names, max_size=3).map(tuple)
intervals = st.builds(
    Interval, st.integers(1, MAX_MILLIS) | st.integers(1, 100).map((60_000).__mul__)
)
numbers = st.builds(Number, st.floats(allow_nan=False, allow_infinity=False))
values = numbers | st.builds(Text, st.text(max_size=12)) | st.builds(Boolean, st.booleans())


def _arithmetic(leaves: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    return st.recursive(
        leaves,
        lambda inner: (
            st.builds(Negate, inner) | st.builds(Binary, st.sampled_from("+-*/"), inner, inner)
        ),
        max_leaves=4,
    )


def _conditions(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Condition]:
    left = operands | st.builds(Elided)
    comparators = st.sampled_from([">", ">=", "<", "<=", "==", "!="])
    members = st.lists(values, min_size=1, max_size=3).map(tuple)
    simple = st.builds(Compare, comparators, left, operands) | st.builds(
        ListMembership, left, members, st.booleans()
    )
    return st.recursive(
        simple,
        lambda inner: (
            st.builds(NotCondition, inner) | _row(AndCondition, inner) | _row(OrCondition, inner)
        ),
        max_leaves=4,
    )


def _row(
    kind: type[AndCondition] | type[OrCondition], terms: st.SearchStrategy[Condition]
) -> st.SearchStrategy[Condition]:
    others = terms.filter(lambda term: not isinstance(term, kind))
    return st.builds(kind, st.lists(others, min_size=2, max_size=4).map(tuple))


def _streams(conditions: st.SearchStrategy[Condition]) -> st.SearchStrategy[MetricStream]:
    streams = st.builds(MetricStream, names, name_lists, st.none() | conditions)
    return streams.filter(lambda stream: bool(stream.members) or stream.when is not None)


def _scoped(
    expressions: st.SearchStrategy[Expression], conditions: st.SearchStrategy[Condition]
) -> st.SearchStrategy[Scoped]:
    return st.builds(Scoped, expressions, name_lists, st.none() | conditions).filter(_is_canonical)


def _is_canonical(scoped: Scoped) -> bool:
    if scoped.by:
        return True
    metric = isinstance(scoped.expression, Name) or (
        isinstance(scoped.expression, MetricStream) and scoped.expression.when is None
    )
    return scoped.when is not None and not metric


def _calls(arguments: st.SearchStrategy[Expression]) -> st.SearchStrategy[FunctionCall]:
    other = dotted.map(str.upper).filter(lambda word: word not in {*ALIASES, *OPERATORS})
    parameters = numbers | intervals | st.builds(Name, dotted)
    stretches = st.tuples() | st.tuples(intervals) | st.tuples(intervals, intervals)
    return st.builds(
        lambda function, given, parameters, stretches: FunctionCall(
            function, given, parameters, *stretches
        ),
        st.sampled_from(sorted(BUILT_IN)) | other,
        st.lists(arguments, min_size=1, max_size=3).map(tuple),
        st.just(()) | st.lists(parameters, max_size=2).map(tuple),
        stretches,
    ).filter(lambda call: not _lacks_a_unit(call))


def _lacks_a_unit(call: FunctionCall) -> bool:
    if call.function in SCALAR or len(call.arguments) < 2:
        return False
    misplaced = call.function in WITH_PARAMETER and not call.parameters
    return isinstance(call.arguments[-1], Number) or (
        misplaced and any(isinstance(each, Number) for each in call.arguments)
    )


_simple = numbers | st.builds(Name, names) | st.builds(InsightReference, dotted)
_simple_in_conditions = values | st.builds(Name, dotted) | st.builds(InsightReference, dotted)
# Deferred, as strategies that contain each other take long to print, which Hypothesis does.
_plain_conditions: st.SearchStrategy[Condition] = st.deferred(
    lambda: _conditions(_arithmetic(_simple_in_conditions))
)
expressions: st.SearchStrategy[Expression] = st.deferred(
    lambda: st.recursive(
        _arithmetic(_simple | _streams(_plain_conditions)),
        lambda inner: _arithmetic(_simple | _calls(inner) | _scoped(inner, _plain_conditions)),
        max_leaves=4,
    )
)
_compound = expressions.filter(lambda node: isinstance(node, FunctionCall | MetricStream | Scoped))
conditions: st.SearchStrategy[Condition] = st.deferred(
    lambda: _conditions(_arithmetic(_simple_in_conditions | _compound))
)

_shares = st.floats(0, 1, exclude_min=True, exclude_max=True)
_counts = st.integers(1, 1_000_000_000)
settings = st.lists(
    st.builds(Setting, names, st.lists(values, min_size=1, max_size=3).map(tuple)), max_size=3
).map(tuple)
options: st.SearchStrategy[Option] = st.one_of(
    st.builds(Salience, st.integers(0, 100)),
    st.builds(SampleOption, size=_counts),
    st.builds(SampleOption, share=_shares),
    st.builds(Accuracy, _shares, st.none() | _shares),
    st.builds(Awareness, st.sampled_from(["COMPUTATIONS", "ACCURACY"])),
    st.builds(AdamOption, st.none() | _shares),
    st.builds(
        Outliers,
        names,
        st.none() | _counts,
        st.none() | st.floats(0, allow_infinity=False, exclude_min=True),
    ),
    st.builds(SchedulerOption, names, settings),
    st.builds(CostCapOption, st.floats(0, allow_infinity=False), intervals),
    st.builds(PlacementOn, names, values, st.none() | _counts, st.booleans()),
    st.builds(Allow, conditions),
    st.builds(Signature, names),
)
rhythms = (
    intervals
    | st.builds(PointCount, st.integers(1, MAX_POINTS))
    | st.builds(
        Daily,
        st.integers(1, 36_500),
        st.builds(time, st.integers(0, 23), st.integers(0, 59)),
        # Halves of a day are refused as zones.
        names.filter(lambda name: name.upper() not in ("AM", "PM")),
    )
)
insights = st.builds(
    InsightStatement,
    name=dotted,
    expression=expressions,
    by=name_lists,
    when=st.none() | conditions,
    every=st.none() | rhythms,
    options=st.lists(options, max_size=4).map(tuple),
)
statements = st.one_of(
    insights,
    st.builds(StreamDefinition, dotted, dotted, settings),
    st.builds(
        FunctionDefinition,
        dotted.map(str.upper),
        st.lists(dotted, min_size=1, max_size=3).map(tuple),
        # A list of one value is an expression in parentheses.
        expressions | st.builds(ValueList, st.lists(values, min_size=2, max_size=3).map(tuple)),
    ),
)
scripts = st.builds(Script, st.lists(statements, min_size=1, max_size=2).map(tuple))
