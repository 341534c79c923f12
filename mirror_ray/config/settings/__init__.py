"""The resolved settings that every other room works from; what a config file becomes, whatever its form.

Values here are complete: precedence, defaults and config providers have been applied. A value of None means that
the file is silent and that the default depends on the cluster (for example the replication factor).
"""

from mirror_ray.config.settings.cluster import ClusterSettings as ClusterSettings
from mirror_ray.config.settings.cluster import NativeCluster as NativeCluster
from mirror_ray.config.settings.derived import backfill_settings as backfill_settings
from mirror_ray.config.settings.derived import route_settings as route_settings
from mirror_ray.config.settings.derived import with_all_names as with_all_names
from mirror_ray.config.settings.derived import with_registries as with_registries
from mirror_ray.config.settings.flow import BackfillSettings as BackfillSettings
from mirror_ray.config.settings.flow import FaultSettings as FaultSettings
from mirror_ray.config.settings.flow import FetchSettings as FetchSettings
from mirror_ray.config.settings.flow import FlowSettings as FlowSettings
from mirror_ray.config.settings.flow import GroupSettings as GroupSettings
from mirror_ray.config.settings.flow import HeartbeatSettings as HeartbeatSettings
from mirror_ray.config.settings.flow import NamesOfFlow as NamesOfFlow
from mirror_ray.config.settings.flow import NativeFlow as NativeFlow
from mirror_ray.config.settings.flow import OffsetSyncSettings as OffsetSyncSettings
from mirror_ray.config.settings.flow import PolicySettings as PolicySettings
from mirror_ray.config.settings.flow import ProduceSettings as ProduceSettings
from mirror_ray.config.settings.flow import ProvenanceOfFlow as ProvenanceOfFlow
from mirror_ray.config.settings.flow import ProvenanceSettings as ProvenanceSettings
from mirror_ray.config.settings.flow import RenamePattern as RenamePattern
from mirror_ray.config.settings.flow import RouteSettings as RouteSettings
from mirror_ray.config.settings.flow import StatisticsSettings as StatisticsSettings
from mirror_ray.config.settings.flow import TopicSettings as TopicSettings
from mirror_ray.config.settings.flow import TransformSettings as TransformSettings
from mirror_ray.config.settings.flow import TransformStep as TransformStep
from mirror_ray.config.settings.offsets import OffsetSettings as OffsetSettings
from mirror_ray.config.settings.registry import RegistrySettings as RegistrySettings
from mirror_ray.config.settings.reversed import is_reversed as is_reversed
from mirror_ray.config.settings.reversed import restored_settings as restored_settings
from mirror_ray.config.settings.reversed import reversed_settings as reversed_settings
from mirror_ray.config.settings.reversed import without_flow as without_flow
from mirror_ray.config.settings.schemas import SchemaSettings as SchemaSettings
from mirror_ray.config.settings.security import SaslMechanism as SaslMechanism
from mirror_ray.config.settings.security import SaslSettings as SaslSettings
from mirror_ray.config.settings.security import SecurityProtocol as SecurityProtocol
from mirror_ray.config.settings.security import SecuritySettings as SecuritySettings
from mirror_ray.config.settings.security import SslSettings as SslSettings
from mirror_ray.config.settings.system import SPARK_SIZE as SPARK_SIZE
from mirror_ray.config.settings.system import AlertSettings as AlertSettings
from mirror_ray.config.settings.system import AuditSettings as AuditSettings
from mirror_ray.config.settings.system import CostSettings as CostSettings
from mirror_ray.config.settings.system import ElasticSettings as ElasticSettings
from mirror_ray.config.settings.system import MirrorSettings as MirrorSettings
from mirror_ray.config.settings.system import PlacementSettings as PlacementSettings
from mirror_ray.config.settings.system import ReplicatorSettings as ReplicatorSettings
from mirror_ray.config.settings.system import SparkSettings as SparkSettings
from mirror_ray.config.settings.system import SystemSettings as SystemSettings
