"""The answer to a /query: each site aggregates its own points, and one agent merges the states."""

import math
from collections.abc import Collection, Iterable
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from mistbow.client.agent_model import Missing, QueryAnswer, ReplicaSource
from mistbow.errors import InvalidRequestError
from storage_agent.http.points import QueryBody
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.scatter_gather import ScatterRequest, scatter
from storage_agent.series import Series
from storage_agent.timeseries.catalogue import Catalogue
from storage_agent.timeseries.history import History
from storage_agent.timeseries.multi_site_get import ReplicaReads
from storage_agent.timeseries.point_queries import name_set, select_series, time_range
from storage_agent.timeseries.selection import SeriesSelection
from storage_agent.work_threads import in_thread_if_many


class AggregateState(msgspec.Struct, frozen=True):
    """The count, sum, minimum and maximum of the points with finite values.

    ``sum``: None if the sum is beyond the range of floats. ``min``, ``max``: None if there are no
    points. ``missing``: nodes that could not be read, with the reasons. ``replicas``: replicas that
    were read in place of their sources.
    """

    count: int = 0
    sum: float | None = 0.0
    min: float | None = None
    max: float | None = None
    missing: tuple[Missing, ...] = ()
    replicas: tuple[ReplicaSource, ...] = ()

    @classmethod
    def of_value(cls, value: float) -> "AggregateState":
        """Return the state of a single point; the state of NaN or an infinity has no points."""
        return cls(1, value, value, value) if math.isfinite(value) else cls()


_STATE = msgspec.json.Decoder(AggregateState)


class Aggregation:
    """Computes aggregate states of the points of this node."""

    def __init__(self, node: str, catalogue: Catalogue, history: History) -> None:
        self._node = node
        self._catalogue = catalogue
        self._history = history

    async def aggregate(self, body: QueryBody) -> AggregateState:
        """Return the aggregate state of those points of this node that a body selects.

        If the body requests latest values, the state is that of the latest values.
        """
        times = time_range(body)
        reasons = self._history.unstored()
        series = await select_series(self._catalogue, body)
        if times is None:
            state = await in_thread_if_many(len(series), partial(_latest_state, series))
        else:
            state = await aggregate_range(self._history, series, *times, missing=reasons)
        missing = tuple(Missing(self._node, reason) for reason in reasons)
        return msgspec.structs.replace(state, missing=missing)


async def aggregate_range(
    history: History,
    series: Collection[Series],
    start: int,
    end: int,
    missing: list[str] | None = None,
) -> AggregateState:
    """Return the aggregate state of the points of ``series`` with ``start <= ts <= end`` (ms).

    ``missing``: as in ``History.batches``.
    """
    state = AggregateState()
    batches = history.batches(series, start, end, columns=("value",), missing=missing)
    async for batch in batches:
        found = await in_thread_if_many(batch.num_rows, partial(_state_of, batch["value"]))
        state = merge((state, found))
    return state


def _latest_state(series: SeriesSelection) -> AggregateState:
    return _state_of(pa.array(series.value[series.has_latest]))


def _state_of(column: pa.Array) -> AggregateState:
    values = column.filter(pc.is_finite(column))
    if not len(values):
        return AggregateState()
    bounds = pc.min_max(values).as_py()
    total = pc.sum(values).as_py()
    return AggregateState(
        len(values), total if math.isfinite(total) else None, bounds["min"], bounds["max"]
    )


async def query(
    body: QueryBody, membership: FabricMembership, here: Aggregation, replicas: ReplicaReads
) -> bytes:
    """Return the JSON answer to a /query.

    The nodes in the body are aggregated; if the body names no nodes, this node is aggregated.
    """
    missing: tuple[Missing, ...] = ()
    if body.nodes is None:
        await replicas.count_read(body)
        state = await here.aggregate(body)
        missing = state.missing
    else:
        alone = msgspec.structs.replace(body, nodes=None)

        async def parts() -> bytes:
            return msgspec.json.encode(await here.aggregate(alone))

        content, failover = msgspec.json.encode(alone), replicas.failover(alone)
        request = ScatterRequest("/query/parts", content, parts, _STATE.decode, failover)
        answers = await scatter(name_set(body.nodes), membership, request)
        state = merge(answers.found)
        missing = (*state.missing, *answers.missing)
    value = finalize(state, body.agg)
    return msgspec.json.encode(QueryAnswer(value, state.replicas, missing))


def merge(states: Iterable[AggregateState]) -> AggregateState:
    """Merge aggregate states into one state.

    >>> two = AggregateState(2, 9.0, 4.0, 5.0)
    >>> merge([AggregateState.of_value(2.0), AggregateState(), two])
    AggregateState(count=3, sum=11.0, min=2.0, max=5.0, missing=(), replicas=())
    """
    states = tuple(states)
    filled = [state for state in states if state.count]
    total = sum(math.inf if state.sum is None else state.sum for state in filled)
    return AggregateState(
        sum(state.count for state in filled),
        total if math.isfinite(total) else None,
        min((state.min for state in filled if state.min is not None), default=None),
        max((state.max for state in filled if state.max is not None), default=None),
        tuple(each for state in states for each in state.missing),
        tuple(each for state in states for each in state.replicas),
    )


def finalize(state: AggregateState, agg: str) -> float | None:
    """Return the value of the aggregate function ``agg`` (``sum``, ``avg``, ``min`` or ``max``).

    None: the state has no points. Raises ``InvalidRequestError`` if the sum of the points is beyond
    the range of floats.
    """
    if state.count == 0:
        return None
    if agg in ("min", "max"):
        return state.min if agg == "min" else state.max
    if state.sum is None:
        raise InvalidRequestError(
            f"agg: the {agg} of these points is beyond the range of a float",
            hint="Select a shorter time, or fewer metrics and entities.",
        )
    return state.sum if agg == "sum" else state.sum / state.count
