"""Every key that MM2, Connect and the clients of Kafka 4.3.0 know, and what becomes of it here.

One row per key: used (with the field it sets), ignored (with the reason) or refused (with the alternative). The
translation, its error texts and the tables in ``docs/configuration.md`` all come from these rows; each scope is a file.
"""

from mirror_ray.config.keys.clients import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from mirror_ray.config.keys.cluster import CLUSTER_KEYS, SECURITY_KEYS
from mirror_ray.config.keys.flow import FLOW_KEYS
from mirror_ray.config.keys.key import ConfigKey, KeyUse, ValueKind, find_key, nearest
from mirror_ray.config.keys.system import DRIVER_KEYS, WORKER_KEYS

__all__ = [
    "ADMIN_KEYS",
    "CLUSTER_KEYS",
    "CONSUMER_KEYS",
    "DRIVER_KEYS",
    "FLOW_KEYS",
    "PRODUCER_KEYS",
    "SECURITY_KEYS",
    "WORKER_KEYS",
    "ConfigKey",
    "KeyUse",
    "ValueKind",
    "find_key",
    "nearest",
]
