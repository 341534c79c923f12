"""Settings told apart by their fingerprint."""

from __future__ import annotations

import pickle

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.coordinator.saved_settings import fingerprint
from tests.unit.coordinator.fakes import settings


def test_fingerprint_tells_settings_apart_and_nothing_else() -> None:
    """It is the same behind a process boundary, and another one for another password."""
    alice, other = (
        settings().model_copy(update={"clusters": {"A": ClusterSettings.model_validate(cluster)}})
        for password in ("one", "two")
        for cluster in [
            {
                "alias": "A",
                "bootstrap_servers": ("a:9092",),
                "security": {"sasl": {"mechanism": "PLAIN", "username": "alice", "password": password}},
            }
        ]
    )
    assert fingerprint(pickle.loads(pickle.dumps(alice))) == fingerprint(alice)  # noqa: S301 - pickled by the test itself
    assert fingerprint(other) != fingerprint(alice)
