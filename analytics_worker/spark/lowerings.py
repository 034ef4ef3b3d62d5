"""The table of Spark's lowerings: from each logical operator to what stands for it; total."""

from collections.abc import Mapping

from analytics_worker.accumulating.accumulators import accumulate
from analytics_worker.composition import compose
from analytics_worker.finishing import finish
from analytics_worker.spark.contents import CARRIED, numbers_of_panes, numbers_of_points
from analytics_worker.spark.lowering import to_panes, to_windows
from analytics_worker.spark.panes_source import PanesSource
from analytics_worker.spark.source import MistbowSource
from analytics_worker.streaming_library import Lowered, Lowering, Unsupported
from mistbow.operators.calling import call
from mistbow.panes.mathematical import MATHEMATICAL
from mistbow.plan.contents import CONTENT_OF
from mistbow.plan.expressions import ACCUMULATING, Function

_COMPOSED = Lowered((compose,))


def _of_function(function: Function) -> Lowered:
    content = CONTENT_OF[function]
    said = accumulate if function in ACCUMULATING else finish
    if content is None:
        return Lowered((numbers_of_points, numbers_of_panes, said))
    carried = CARRIED[content]
    return Lowered((carried.of_points, carried.of_panes, said))


LOWERINGS: Mapping[str, Lowering] = {
    "Source": Lowered((MistbowSource, PanesSource)),
    "Pane": Lowered((to_panes,)),
    "Window": Lowered((to_windows,)),
    "Aggregate": Unsupported("each aggregate must have become a measure of a window"),
    "Value": Unsupported("the value of a point is known in predicates over points only"),
    **dict.fromkeys(
        (
            "Measure", "Reduction", "Mapped", "Geohash", "Label", "Arithmetic", "Negation",
            "Literal", "Attribute", "Filtered", "Comparison", "Membership", "And", "Or", "Not",
        ),
        _COMPOSED,
    ),
    **{function: _of_function(function) for function in CONTENT_OF},
    "UserOperator": Lowered((CARRIED["points"].of_points, CARRIED["points"].of_panes, call)),
    **{function: Lowered((compose, lowered)) for function, lowered in MATHEMATICAL.items()},
}  # fmt: skip
"""By an operator's name. Sources are read, points and panes aggregated by Spark; the rest is a
function of Arrow tables, called in one task of it.
"""
