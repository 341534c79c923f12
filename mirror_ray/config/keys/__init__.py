"""Every key that MM2, Connect and the clients of Kafka 4.3.0 know, and what becomes of it here.

One row per key: used (with the field it sets), ignored (with the reason) or refused (with the alternative). The
translation, its error texts and the tables in ``docs/configuration.md`` all come from these rows; each scope is a file.
"""

from mirror_ray.config.keys.clients import ADMIN_KEYS as ADMIN_KEYS
from mirror_ray.config.keys.clients import CONSUMER_KEYS as CONSUMER_KEYS
from mirror_ray.config.keys.clients import PRODUCER_KEYS as PRODUCER_KEYS
from mirror_ray.config.keys.cluster import CLUSTER_KEYS as CLUSTER_KEYS
from mirror_ray.config.keys.cluster import SECURITY_KEYS as SECURITY_KEYS
from mirror_ray.config.keys.flow import FLOW_KEYS as FLOW_KEYS
from mirror_ray.config.keys.key import ConfigKey as ConfigKey
from mirror_ray.config.keys.key import KeyUse as KeyUse
from mirror_ray.config.keys.key import ValueKind as ValueKind
from mirror_ray.config.keys.key import find_key as find_key
from mirror_ray.config.keys.key import nearest as nearest
from mirror_ray.config.keys.registry import REGISTRY_KEYS as REGISTRY_KEYS
from mirror_ray.config.keys.system import DRIVER_KEYS as DRIVER_KEYS
from mirror_ray.config.keys.system import WORKER_KEYS as WORKER_KEYS
