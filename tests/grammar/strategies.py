"""Hypothesis strategies for syntax trees that some text parses to."""

from hypothesis import strategies as st

from grammar.ast import (
    Aggregate,
    And,
    Binary,
    Boolean,
    Compare,
    Condition,
    Elided,
    Expression,
    Insight,
    Interval,
    Membership,
    MetricStream,
    Name,
    Negate,
    Not,
    Number,
    Or,
    Script,
    Text,
)
from grammar.format import RESERVED
from grammar.units import LONGEST

words = st.text("abM_", min_size=1, max_size=4).filter(lambda word: word.upper() not in RESERVED)
dotted = words | st.sampled_from(["cpu", "cpu.util", "pod.name", "core.0"])
names = dotted | st.text(min_size=1, max_size=12) | st.sampled_from(sorted(RESERVED))
intervals = st.builds(Interval, st.integers(1, LONGEST) | st.integers(1, 100).map((60_000).__mul__))
numbers = st.builds(Number, st.floats(allow_nan=False, allow_infinity=False))
values = numbers | st.builds(Text, st.text(max_size=12)) | st.builds(Boolean, st.booleans())


def _streams(conditions: st.SearchStrategy[Condition]) -> st.SearchStrategy[MetricStream]:
    members = st.lists(names, max_size=3).map(tuple)
    return st.builds(MetricStream, names, members, st.none() | conditions)


def _aggregates(conditions: st.SearchStrategy[Condition]) -> st.SearchStrategy[Aggregate]:
    functions = words.map(str.upper)
    return st.builds(Aggregate, functions, _streams(conditions), st.none() | intervals)


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
        Membership, left, members, st.booleans()
    )
    return st.recursive(
        simple,
        lambda inner: st.builds(Not, inner) | _row(And, inner) | _row(Or, inner),
        max_leaves=4,
    )


def _row(
    kind: type[And] | type[Or], terms: st.SearchStrategy[Condition]
) -> st.SearchStrategy[Condition]:
    others = terms.filter(lambda term: not isinstance(term, kind))
    return st.builds(kind, st.lists(others, min_size=2, max_size=4).map(tuple))


_plain_conditions = _conditions(_arithmetic(values | st.builds(Name, dotted)))
aggregates = _aggregates(_plain_conditions)
conditions = _conditions(_arithmetic(values | st.builds(Name, dotted) | aggregates))
expressions = _arithmetic(numbers | aggregates)
insights = st.builds(
    Insight,
    name=words,
    expression=expressions,
    by=st.lists(names, max_size=3).map(tuple),
    when=st.none() | conditions,
    every=st.none() | intervals,
    scheduler=st.none() | st.builds(Text, names),
)
scripts = st.builds(Script, st.lists(insights, min_size=1, max_size=2).map(tuple))
