"""The clients of the analytics worker: order, run and stop fragments, and read their status."""

from urllib.parse import quote

import httpx
import pyarrow as pa

from analytics.plan.fragments import Fragment
from analytics.plan.orders import Order, OrderAnswer
from analytics.plan.preview import PreviewOrder
from analytics.plan.status import FragmentStatus
from mistbow.client.methods import AsyncClient, Client, Method
from mistbow.client.transport import Call, get_json, json_of, no_answer, send_json
from mistbow.streams.wire import read_table


def run(fragment: Fragment) -> Call[FragmentStatus]:
    """Run a fragment in place of any running fragment with the same id; return its status."""
    return send_json("PUT", _path(fragment.id), fragment, json_of(FragmentStatus))


def obey(domain: str, order: Order) -> Call[OrderAnswer]:
    """Run the fragments of an order, and stop the other fragments of the domain.

    Raises ``FencedError`` if the worker has received an order under a greater lease.
    """
    return send_json("PUT", f"/domains/{quote(domain, safe='')}/order", order, json_of(OrderAnswer))


def show(fragment_id: str) -> Call[FragmentStatus]:
    """Return the status of a fragment; raises ``NotFoundError`` for an unknown id."""
    return get_json(_path(fragment_id), FragmentStatus)


def list_fragments() -> Call[list[FragmentStatus]]:
    """Return the status of every fragment."""
    return get_json("/fragments", list[FragmentStatus])


def stop(fragment_id: str) -> Call[None]:
    """Stop a fragment and remove it."""
    return Call("DELETE", _path(fragment_id), no_answer, repeatable=True)


def preview(order: PreviewOrder) -> Call[pa.Table]:
    """Return the results of a preview (``RESULT_ROWS``), in no particular order.

    The metadata of the table has the time (ms) ``after`` which the results begin.
    """
    return send_json("POST", "/previews", order, _table, repeatable=False)


def drain() -> Call[None]:
    """Let the fragments of the worker move to other workers."""
    return Call("PUT", "/drain", no_answer, repeatable=True)


def undrain() -> Call[None]:
    """Let the worker receive fragments again."""
    return Call("DELETE", "/drain", no_answer, repeatable=True)


def _table(response: httpx.Response) -> pa.Table:
    return read_table(response.content)


def _path(fragment_id: str) -> str:
    return f"/fragments/{quote(fragment_id, safe='')}"


class WorkerMethods:
    """The methods that the sync client and the async client of a worker share."""

    run = Method(run)
    obey = Method(obey)
    show = Method(show)
    list = Method(list_fragments)
    stop = Method(stop)
    preview = Method(preview)
    drain = Method(drain)
    undrain = Method(undrain)


class WorkerClient(WorkerMethods, Client):
    """A sync client of an analytics worker.

    If the worker answers with an error, the method raises the ``MistbowError`` of this error.
    """


class AsyncWorkerClient(WorkerMethods, AsyncClient):
    """An async client of an analytics worker, with the methods and errors of ``WorkerClient``."""
