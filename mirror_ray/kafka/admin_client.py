"""confluent-kafka's AdminClient, such that it may be dropped anywhere, at any time."""

from __future__ import annotations

import threading
from functools import cache
from queue import SimpleQueue
from typing import Any

from confluent_kafka.admin import AdminClient


class CollectableAdminClient(AdminClient):
    """An AdminClient that is destroyed by a thread of ours, wherever its last reference is dropped.

    librdkafka ends the process where a client is destroyed by a thread of its own. That happens where Python's garbage
    collection finds the client while its thread delivers an answer: an exception's traceback refers to the client.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """See AdminClient."""
        self._drop = _dropped().put
        super().__init__(config)

    def __del__(self) -> None:
        """Hand ourselves over; Python calls this once, and frees us when the other thread is done."""
        self._drop(self)


@cache
def _dropped() -> SimpleQueue[CollectableAdminClient]:
    """What is put in is destroyed."""
    clients = SimpleQueue[CollectableAdminClient]()

    def destroy() -> None:
        while True:
            clients.get().__exit__(None, None, None)

    threading.Thread(target=destroy, name="destroys admin clients", daemon=True).start()
    return clients
