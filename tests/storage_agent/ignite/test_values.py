"""Mistbow's own get and put for caches of Ignite, compared with those of pyignite."""

import pytest
from pyignite import AioClient
from pyignite.exceptions import CacheError

from ignite_server.server import IgniteServer
from storage_agent.ignite.values import get, get_all, put, put_all, put_if_absent


async def test_values_equal_those_of_pyignite(ignite: IgniteServer) -> None:
    client = AioClient()
    async with client.connect("127.0.0.1", ignite.port):
        cache = await client.get_or_create_cache("puts")
        assert await put_if_absent(cache, "schlüssel", b"first") is True
        assert await put_if_absent(cache, "schlüssel", b"second") is False
        assert await put_if_absent(cache, "text", "größer") is True
        await put_all(cache, {"schlüssel": b"third", "empty": b"", "long": bytes(2**20)})
        await put_all(cache, {})
        await put(cache, "put", b"alone")
        await cache.put("number", 7)
        stored = {
            "schlüssel": b"third",
            "text": "größer",
            "empty": b"",
            "long": bytes(2**20),
            "put": b"alone",
        }
        assert await cache.get_all([*stored, "none"]) == stored
        assert await get_all(cache, [*stored, "none"]) == stored
        assert await get_all(cache, ["none"]) == {}
        for key in (*stored, "none"):
            assert await get(cache, key) == stored.get(key)
        with pytest.raises(CacheError, match="neither bytes nor text"):
            await get(cache, "number")
        # That it compares so too: a text is a text for Ignite.
        assert await cache.replace_if_equals("text", "größer", "kleiner")
        await cache.destroy()
        with pytest.raises(CacheError, match="Cache does not exist"):
            await put_if_absent(cache, "schlüssel", b"fourth")
        with pytest.raises(CacheError, match="Cache does not exist"):
            await put_all(cache, {"schlüssel": b"fourth"})
        with pytest.raises(CacheError, match="Cache does not exist"):
            await get_all(cache, ["schlüssel"])
        assert await client.get_cache_names() is not None
