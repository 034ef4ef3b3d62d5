"""The runtime kit: periodic tasks, and the cancellation of tasks.

Other parts come from libraries: caches from ``cachetools.LRUCache``, concurrency limits from
``anyio.CapacityLimiter``, retries of a single call from ``stamina``.
"""
