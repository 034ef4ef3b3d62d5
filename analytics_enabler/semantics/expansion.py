"""Insights without the names that their text defines: functions replaced, streams looked up."""

from dataclasses import dataclass

from analytics_enabler.semantics.feeds import Schemas
from analytics_enabler.semantics.findings import Findings
from analytics_enabler.semantics.functions import functions_of
from analytics_enabler.semantics.streams import members_in, streams_of
from analytics_enabler.semantics.substitution import Substitution
from grammar import Script, ast
from mistbow.plan.feeds import Feed


@dataclass(frozen=True, slots=True)
class Meant:
    """An insight as it is written, and what is meant by that; None where it means nothing.

    ``feed``: where its own metrics are not of storage.
    """

    written: ast.Insight
    plain: ast.Insight | None
    feed: Feed | None = None


def expanded(
    script: Script, schemas: Schemas, findings: Findings, broken: frozenset[str] = frozenset()
) -> list[Meant]:
    """Return the insights of a text, and say what is wrong with its other definitions.

    An insight that uses a wrong definition means nothing; nothing is said at the insight then.
    ``broken`` are names that wrong statements, which are not in the script, may define.
    """
    substitution = Substitution(functions_of(script, findings, broken), findings)
    called = [
        (each, substitution.of(each)) for each in script.statements if isinstance(each, ast.Insight)
    ]
    used = members_in(script, *(plain for _, plain in called if plain is not None))
    streams = streams_of(script, used, schemas, findings, broken)
    insights: list[Meant] = []
    for each, plain in called:
        found = None if plain is None else streams.resolved(plain, findings)
        insights.append(Meant(each, None) if found is None else Meant(each, *found))
    return insights
