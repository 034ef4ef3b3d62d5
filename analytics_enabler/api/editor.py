"""Routes for editors of insights: the canonical form of a text, and completions at a caret."""

import asyncio

from fastapi import APIRouter

from analytics.editor_models import (
    CaretPosition,
    Completions,
    Formatted,
    Preview,
    PreviewRequest,
    Text,
)
from analytics.operators.registry import installed
from analytics_enabler.api.bodies import body_example
from analytics_enabler.attributes import RecentAttributes
from analytics_enabler.catalogue import DataCatalogue
from analytics_enabler.completion import Vocabulary, complete
from analytics_enabler.deployments.service import Deployments
from analytics_enabler.explain.previewer import Previewer
from analytics_enabler.fabric_view import FabricView
from analytics_enabler.scheduling.registry import scheduler_names
from grammar import ParseError, format_text
from mistbow.auth.rules import requires
from mistbow.client.agent_model import Series
from mistbow.errors import CapacityError, NotFoundError, TooLargeError
from mistbow.openapi import raises

MAX_ENTITIES = 2000
"""The maximum number of entities among which completions are searched."""


class VocabularySource:
    """Collects the names that a text may use, from data that the enabler has already read."""

    def __init__(
        self,
        deployments: Deployments,
        catalogue: DataCatalogue,
        attributes: RecentAttributes,
        fabric_view: FabricView,
    ) -> None:
        self._deployments = deployments
        self._catalogue = catalogue
        self._attributes = attributes
        self._fabric_view = fabric_view

    async def read(self) -> Vocabulary:
        """Return the names that a text may use now."""
        nodes = await self._catalogue.nodes() or []
        details: dict[str, str] = {}
        entities: dict[str, None] = {}
        for node in nodes:
            for series in node.data:
                details.setdefault(series.metric, _detail(series))
                if len(entities) < MAX_ENTITIES:
                    entities[series.entity] = None
        operators = await asyncio.to_thread(installed)
        return Vocabulary(
            metrics=details,
            attributes=await self._attributes.of(),
            entities=list(entities),
            sites=self._fabric_view.sites,
            insights=sorted(
                {each.name for found in self._deployments.all() for each in found.live}
            ),
            schedulers=scheduler_names(),
            operators=sorted({each.name for each in operators.operators}),
        )


def _detail(series: Series) -> str:
    """Return the description of a metric, as its senders wrote it."""
    name = None if series.name == series.metric else series.name
    return ", ".join(filter(None, (series.desc or name, series.units)))


def editor_router(
    deployments: Deployments, vocabulary: VocabularySource, previewer: Previewer
) -> APIRouter:
    """Return the routes ``/api/insights/format``, ``/complete`` and ``/preview``."""
    router = APIRouter(prefix="/api/insights", tags=["editor"])

    @router.post("/format", openapi_extra=body_example({"queries": "a=compute avg(x) every 1 s"}))
    @requires("read")
    async def format_queries(body: Text) -> Formatted:
        """Return a text in its canonical form, with its comments.

        A text with syntax errors is returned unchanged, with its errors.
        """
        try:
            formatted = await asyncio.to_thread(format_text, body.queries)
        except ParseError as error:
            return Formatted(ok=False, queries=body.queries, problems=list(error.problems))
        return Formatted(ok=True, queries=formatted, problems=[])

    caret = {"queries": "a = COMPUTE AV", "line": 1, "column": 15}

    @router.post("/complete", openapi_extra=body_example(caret))
    @requires("read")
    async def complete_queries(body: CaretPosition) -> Completions:
        """Return what may follow at a caret: keywords, functions, and names that exist now.

        The names are those of metrics, attributes and their values, sites, options, schedulers and
        insights.
        """
        names = await vocabulary.read()
        return await asyncio.to_thread(complete, body.queries, body.line, body.column, names)

    text = {"queries": "a = COMPUTE AVG(cpu.util, 1 MINUTE) EVERY 10 SECONDS", "minutes": 10}

    @router.post("/preview", openapi_extra=body_example(text))
    @requires("read")
    @raises(CapacityError, NotFoundError, TooLargeError)
    async def preview_results(body: PreviewRequest) -> Preview:
        """Compute the results of a text in the last minutes once, without deploying the text.

        A worker computes them by the plan that a deployment would have, from the stored points of
        all reachable sites. So the results equal those of a deployment after its corrections;
        accumulators begin at the beginning of the span. The span is shortened if it has too many
        points or ticks. Signed results require a token with the signature.
        """
        checked = await deployments.check(body.queries)
        return await previewer.preview(checked, body)

    return router
