"""The page's server beside a real system: what it shows, and what it outlives."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import psutil
from prometheus_client.parser import text_string_to_metric_families
from ray.experimental import internal_kv

from mirror_ray.config.providers import STANDARD_PROVIDERS
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import CostSettings, MirrorSettings, SecuritySettings, SslSettings
from mirror_ray.mirror import Mirror
from mirror_ray.state.actor_names import NAMESPACE
from mirror_ray.whoami import whoami
from tests.support.clusters import Clusters, TopicMaker
from tests.support.kafka import produce, sample_messages
from tests.support.processes import kill_process
from tests.support.systems import run, settings_of
from tests.support.waiting import wait_until

_NAME = "gateway-test"
_REFERRED, _LITERAL = "referred-4Hc8Qw1Zx7Yt", "literal-9Tb3Vn6Kp2Rs"


def _get(url: str, path: str) -> bytes:
    request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {_REFERRED}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return bytes(error.read())


def _metric(url: str, name: str) -> list[float]:
    families = text_string_to_metric_families(_get(url, "/metrics").decode())
    return [sample.value for family in families for sample in family.samples if sample.name == name]


def _address(mirror: Mirror) -> str:
    found = wait_until(lambda: mirror.status().gateway, 30, "the gateway is up")
    assert found is not None
    return found


def _gateway_pid(url: str) -> int:
    port = int(url.rpartition(":")[2])
    listening = (one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    return next(one.pid for one in listening if tuple(one.laddr)[1:] == (port,) and one.pid is not None)


def _audited(url: str, topic: str) -> bool:
    """Whether the log has the creation by the coordinator, and this user's acts."""
    found = json.loads(_get(url, "/api/v1/audit?limit=1000"))
    made = [(entry["system"], entry["component"]) for entry in found if entry["subject"] == f"topic A.{topic}"]
    acts = [
        entry for entry in found if topic in f"{entry['before']} {entry['after']}" and entry["operator"] == whoami()
    ]
    return len(set(made)) == 1 and made[0][1] == "coordinator" and [e["kind"] for e in acts] == ["pause", "resume"]


def _serves(mirror: Mirror) -> bool:
    url = mirror.status().gateway
    try:
        return url is not None and _metric(url, "mirror_ray_coordinator_up") == [1.0]
    except OSError:
        return False


def _with_secrets(settings: MirrorSettings, directory: Path) -> MirrorSettings:
    """A token by reference, and a password in clear text that a cluster without TLS has no use for."""
    (directory / "token").write_text(_REFERRED)
    token = Secret(f"${{dir:{directory}:token}}", STANDARD_PROVIDERS)
    unused = SecuritySettings(ssl=SslSettings(key_password=Secret(_LITERAL)))
    clusters = {**settings.clusters, "A": settings.clusters["A"].model_copy(update={"security": unused})}
    gateway = settings.gateway.model_copy(update={"token": token})
    return settings.model_copy(update={"clusters": clusters, "gateway": gateway})


def _stored() -> bytes:
    """All keys and values of Ray's store."""
    found: list[bytes] = []
    for namespace in (None, NAMESPACE.encode(), b"fun", b"job", b"cluster", b"session"):
        for key in internal_kv._internal_kv_list(b"", namespace=namespace):
            found += [key, internal_kv._internal_kv_get(key, namespace=namespace) or b""]
    return b"\n".join(found)


def test_it_shows_a_system_and_outlives_its_coordinator(
    clusters: Clusters, make_topic: TopicMaker, system: str, tmp_path: Path
) -> None:
    """Metrics and JSON of a real system; the last of them while nobody answers; a new gateway where one was killed.

    In Ray's store a secret is by reference alone, unless the configuration has it in clear text.
    """
    topic = make_topic(clusters.a, 3)
    produce(clusters.a.confluent_config(), topic, sample_messages(300, partitions=3), codec="zstd")
    settings = settings_of({"A": clusters.a, "B": clusters.b}, "A->B", topics=topic, gateway=True)
    settings = _with_secrets(settings, tmp_path)
    mirror = run(system, settings.model_copy(update={"cost": CostSettings(price_per_gb=0.5, currency="EUR")}))
    url = _address(mirror)
    wait_until(lambda: _metric(url, "mirror_ray_topic_records_total") == [300.0], 20, "all is counted")
    wait_until(lambda: _metric(url, "mirror_ray_flow_lag_records") == [0.0], 20, "nothing is left to copy")
    assert _metric(url, "mirror_ray_replication_latency_seconds_count") == [300.0]
    (shown,) = json.loads(_get(url, "/api/v1/topics"))
    assert (shown["topic"], shown["cost_per_hour"] is None) == (topic, False)
    assert shown["compression"] == _metric(url, "mirror_ray_flow_compression_ratio")[0] > 1
    assert _metric(url, "mirror_ray_price_per_gigabyte") == [0.5]
    mirror.pause("A->B", topic)
    mirror.resume("A->B", topic)
    wait_until(lambda: _audited(url, topic), 20, "what was changed and done is kept, with who did it")
    stored = _stored()
    assert (_REFERRED.encode() in stored, _LITERAL.encode() in stored) == (False, True)
    coordinator = psutil.Process(mirror.status().coordinator_pid)
    coordinator.suspend()
    wait_until(lambda: _metric(url, "mirror_ray_coordinator_up") == [0.0], 30, "its absence is seen")
    assert json.loads(_get(url, "/api/v1/problems"))[0]["kind"] == "coordinator_absent"
    assert _metric(url, "mirror_ray_flow_lag_records") == [0.0]
    coordinator.kill()
    wait_until(lambda: _metric(url, "mirror_ray_coordinator_up") == [1.0], 40, "the next one is heard")
    kill_process(_gateway_pid(url))
    wait_until(lambda: _serves(mirror), 40, "another gateway serves")
