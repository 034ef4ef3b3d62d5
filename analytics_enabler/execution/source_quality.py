"""The quality of the points of sites, from the checks of workers and the counters of streams."""

import asyncio
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from analytics_enabler.execution.point_rates import PATIENCE_S, PointRates
from analytics_enabler.scheduling.model.snapshot import SourceQuality
from mistbow.client.agent import AsyncAgentClient
from mistbow.clock import Clock
from mistbow.errors import MistbowError, NotFoundError
from mistbow.streams.schemas import quality_stream

MAX_ROWS = 500
"""The number of the last rows of a stream of qualities that are read."""

MAX_AGE_MS = 60_000
"""The age (ms) from which a row does not count."""

STEP = 0.05
"""The smallest change of a figure that counts."""

DIMENSIONS = ("completeness", "timeliness", "accuracy")


class SourceQualities:
    """The quality of the points of each site that insights read, at the last ``refresh``."""

    def __init__(self, agent: AsyncAgentClient, rates: PointRates, clock: Clock) -> None:
        self._agent = agent
        self._rates = rates
        self._clock = clock
        self._checked: dict[str, Mapping[str, float]] = {}

    @property
    def sources(self) -> tuple[SourceQuality, ...]:
        """The known qualities, in the order of sites.

        A site whose points are not checked has the timeliness of the counters of its stream.
        """
        timeliness = self._rates.timeliness
        sites = sorted({*timeliness, *(site for site, each in self._checked.items() if each)})
        return tuple(
            SourceQuality(
                site=site,
                **{
                    **({"timeliness": timeliness[site]} if site in timeliness else {}),
                    **self._checked.get(site, {}),
                },
            )
            for site in sites
        )

    async def refresh(self, sites: Iterable[str]) -> bool:
        """Read the figures of the workers at these sites; return whether a figure has changed."""
        names = sorted(sites)
        found = await asyncio.gather(*map(self._read, names))
        former, self._checked = self._checked, {}
        for site, each in zip(names, found, strict=True):
            before = former.get(site, {})
            self._checked[site] = before if each is None else _stable(each, before)
        return self._checked != former

    async def _read(self, site: str) -> Mapping[str, float] | None:
        """Return the figures of a site; None: the site does not answer."""
        agent, stream = self._agent.at(site), quality_stream(site)
        try:
            async with asyncio.timeout(PATIENCE_S):
                head = (await agent.info(stream)).head
                rows = (await agent.read(stream, max(head - MAX_ROWS, 0), head)).table
        except NotFoundError:
            return {}
        except (MistbowError, TimeoutError):
            return None
        return figures_of(rows, self._clock() - MAX_AGE_MS)


def figures_of(rows: pa.Table, after: int) -> dict[str, float]:
    """Return the figures of the newest rows of each metric and fragment, weighted by points.

    ``after``: the time (ms) of the oldest row that counts.
    """
    names = [pc.cast(rows[name], pa.string()) for name in ("metric", "fragment")]
    texts = pa.table([*names, *(rows[each] for each in ("ts", "points", *DIMENSIONS))], names=[
        "metric", "fragment", "ts", "points", *DIMENSIONS
    ])  # fmt: skip
    newest = {
        (row["metric"], row["fragment"]): row for row in texts.to_pylist() if row["ts"] > after
    }
    figures = {}
    for dimension in DIMENSIONS:
        known = [row for row in newest.values() if row[dimension] is not None]
        # A metric without points counts as one point.
        weight = sum(max(row["points"], 1) for row in known)
        if weight:
            total = sum(row[dimension] * max(row["points"], 1) for row in known)
            figures[dimension] = round(min(total / weight, 1.0), 3)
    return figures


def _stable(found: Mapping[str, float], former: Mapping[str, float]) -> dict[str, float]:
    """Return the figures; small changes from the former values are ignored."""
    return {
        name: former[name] if abs(value - former.get(name, -1.0)) < STEP else value
        for name, value in found.items()
    }
