"""The reports about insights and deployments: progress, outages, and problems of operators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analytics_enabler.execution.outages import Outage, in_order
from analytics_enabler.execution.progress import ProgressReport, worst

MAX_OUTAGES = 3
"""The maximum number of outages that one text describes."""


@dataclass(frozen=True, slots=True)
class InsightReport:
    """The progress of an insight, its outages, and the problems of its operators."""

    progress: ProgressReport
    outages: tuple[Outage, ...]
    problems: tuple[str, ...]

    @property
    def error(self) -> str | None:
        """The outages and problems as a text; None: there are none."""
        return _text(self.outages, self.problems)


@dataclass(frozen=True, slots=True)
class DeploymentReport:
    """The reports of the insights of a deployment: uid -> report."""

    insights: Mapping[str, InsightReport]

    @property
    def progress(self) -> ProgressReport:
        """The worst progress of the insights."""
        return worst([each.progress for each in self.insights.values()])

    @property
    def error(self) -> str | None:
        """The outages and problems of all insights as a text; None: there are none."""
        reports = self.insights.values()
        outages = in_order(outage for each in reports for outage in each.outages)
        return _text(outages, [problem for each in reports for problem in each.problems])


def _text(outages: Sequence[Outage], problems: Sequence[str]) -> str | None:
    """Return the first texts, the outages before the problems of operators; None: there are none.

    An outage may be the cause of those that follow.
    """
    texts = [*map(str, outages), *sorted(problems)]
    more = [f"({len(texts) - MAX_OUTAGES} more)"] if len(texts) > MAX_OUTAGES else []
    return " ".join([*texts[:MAX_OUTAGES], *more]) or None
