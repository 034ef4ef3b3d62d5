"""The insights that ``mistbow run`` deploys, on a real enabler."""

import threading
from pathlib import Path

from mistbow.client.enabler import EnablerClient
from mistbow.supervisor.showcase import results
from tests.analytics_enabler.conftest import SharedSite
from tests.support.waiting import eventually


def test_what_a_user_deletes_is_not_deployed_again(shared_site: SharedSite, tmp_path: Path) -> None:
    file = tmp_path / "showcase.insights"
    file.write_text("busy = COMPUTE AVG(cpu) EVERY 1 s", encoding="utf-8")
    enabler = EnablerClient(shared_site.enabler)

    def deployed() -> list[str]:
        return [d.deployment_id for d in enabler.list() if d.name == "showcase"]

    following = threading.Thread(
        target=lambda: list(results(enabler, file, threading.Event())), daemon=True
    )
    following.start()
    (deployment_id,) = eventually(deployed)
    enabler.delete(deployment_id)
    following.join(20)
    assert not following.is_alive()
    assert deployed() == []
