"""Nodes that join a site, and a site that continues without a node, on real servers."""

import pytest
from pyignite import Client
from pyignite.datatypes.cache_config import CacheMode, WriteSynchronizationMode
from pyignite.datatypes.prop_codes import (
    PROP_BACKUPS_NUMBER,
    PROP_CACHE_MODE,
    PROP_GROUP_NAME,
    PROP_NAME,
    PROP_WRITE_SYNCHRONIZATION_MODE,
)
from pyignite.exceptions import CacheError

from ignite_server.cluster import accept_loss, baseline
from ignite_server.config import CACHE_GROUP
from ignite_server.ports import LOOPBACK, free_ports
from ignite_server.server import IgniteServer
from ignite_server.settings import IgniteSettings
from mistbow.errors import ConflictError
from tests.support.conditions import eventually

pytestmark = pytest.mark.usefixtures("processes")

THINGS = {
    PROP_NAME: "things",
    PROP_GROUP_NAME: CACHE_GROUP,
    PROP_CACHE_MODE: CacheMode.PARTITIONED,
    PROP_BACKUPS_NUMBER: 1,
    PROP_WRITE_SYNCHRONIZATION_MODE: WriteSynchronizationMode.FULL_SYNC,
}
LEADERS = "SELECT COUNT(DISTINCT NODE_ID) FROM SYS.PARTITION_STATES WHERE IS_PRIMARY = TRUE"
JARS = IgniteSettings().jars_folder


def things(server, new=()):
    """Store new values in a cache of Ignite; return the set of all values in the cache."""
    client = Client(timeout=30)
    with client.connect(LOOPBACK, server.port):
        cache = client.get_or_create_cache(THINGS)
        for name in new:
            cache.put(name, name)
        with cache.scan() as found:
            return {name for name, _ in found}


def things_or_not_yet(server, new):
    """Call ``things``; raise ``AssertionError`` if the request fails because a node leaves."""
    try:
        return things(server, new)
    except CacheError as error:
        raise AssertionError(str(error)) from error


def asked(server, question):
    client = Client(timeout=30)
    with client.connect(LOOPBACK, server.port), client.sql(question) as rows:
        return list(rows)


def members(server):
    client = Client(timeout=30)
    with client.connect(LOOPBACK, server.port):
        return baseline(client)


@pytest.mark.soak
@pytest.mark.timeout(180)
def test_site_of_one_node_grows_and_continues_without_the_first_node(tmp_path):
    first_port, second_port = free_ports(2)
    with IgniteServer(tmp_path / "first", discovery_port=first_port) as alone:
        things(alone, "abc")
    nodes = tuple(f"{LOOPBACK}:{port}" for port in (first_port, second_port))
    first = IgniteServer(tmp_path / "first", nodes=nodes, discovery_port=first_port)
    second = IgniteServer(tmp_path / "second", nodes=nodes, discovery_port=second_port)
    try:
        first.start()
        second.start()
        assert members(second) == {"mistbow": True, nodes[1]: True}
        eventually(lambda: asked(second, LEADERS) == [[2]], timeout=60, what="it is up to date")
        with pytest.raises(ConflictError, match="no Ignite node of this site is absent"):
            accept_loss(second.config, JARS)
        first.kill()
        eventually(lambda: things_or_not_yet(second, "d") == set("abcd"), what="all entries exist")

        # By itself it waits for the other, however often it starts.
        second.kill()
        second.launch()
        client = Client(timeout=30)

        def waits():
            try:
                with client.connect(LOOPBACK, second.port):
                    return not client.get_cluster().get_state()
            except Exception as error:
                raise AssertionError(str(error)) from error

        eventually(waits, timeout=60, what="it waits")
        assert accept_loss(second.config, JARS) == ["mistbow"]
        second.wait()
        assert members(second) == {nodes[1]: True}
        assert things(second, "e") == set("abcde")
    finally:
        first.kill()
        second.kill()
