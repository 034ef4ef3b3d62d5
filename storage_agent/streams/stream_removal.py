"""The removal of a deleted stream's data from Ignite."""

from storage_agent.streams.log import StreamLog


async def remove_data(log: StreamLog) -> None:
    """Remove all segments and runs of a deleted stream from Ignite.

    After an error, the function may be called again.
    """
    await log.manifest.load()
    manifest = log.manifest.current
    garbage = [run for each in manifest.garbage for run in each.runs]
    if manifest.building is not None:
        garbage.append(manifest.building)
    tail = []
    position = manifest.next
    while (segment := await log.store.get(log.key, position)) is not None:
        tail.append(position)
        position = segment.next
    # The last segment first: after an interruption, the manifest leads to the remaining ones.
    await log.store.remove_segments(log.key, tail[::-1])
    merged = {name for each in manifest.garbage for name in each.merged}
    for name in merged | {run.id for run in manifest.runs}:
        firsts = await log.store.segment_positions(log.key, name)
        await log.store.remove_segments(log.key, firsts)
    for name, blocks in [*garbage, *((run.id, run.blocks) for run in manifest.runs)]:
        await log.store.remove_run(log.key, name, blocks)
