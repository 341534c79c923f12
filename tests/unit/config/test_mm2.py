"""``mm2.properties``: flows, precedence and values, by the cases of MM2's MirrorMakerConfigTest."""

from __future__ import annotations

from pathlib import Path

from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.settings import FlowSettings, GroupSettings, TopicSettings
from mirror_ray.model.names import FlowName
from tests.unit.config.conftest import Load, Problems

_THREE = """
clusters = a, b, c
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
c.bootstrap.servers = c:1
"""


def _flow(loaded: LoadedConfig, name: str = "A->B") -> FlowSettings:
    return loaded.settings.flow(FlowName.parse(name))


def _names(loaded: LoadedConfig) -> list[str]:
    return [str(flow.name) for flow in loaded.settings.flows]


# Which flows exist


def test_all_pairs_exist_for_heartbeats_though_none_is_enabled(load: Load) -> None:
    """testAllConfigNames/testClusterPairsWithDefaultSettings: three clusters alone give six idle flows."""
    loaded = load("", _THREE)
    assert _names(loaded) == ["a->b", "a->c", "b->a", "b->c", "c->a", "c->b"]
    assert not any(flow.enabled for flow in loaded.settings.flows)
    assert all(flow.heartbeats.emit_enabled for flow in loaded.settings.flows)


def test_no_pairs_without_heartbeats(load: Load) -> None:
    """MM2's testEmptyClusterPairsWithGloballyDisabledHeartbeats."""
    assert _names(load("emit.heartbeats.enabled = false", _THREE)) == []


def test_enabled_pairs_exist_without_heartbeats(load: Load) -> None:
    """MM2's testClusterPairsWithTwoDisabledHeartbeats and its like."""
    loaded = load("emit.heartbeats.enabled = false\na->b.enabled = true\na->c.enabled = true", _THREE)
    assert _names(loaded) == ["a->b", "a->c"]
    assert not _flow(loaded, "a->b").heartbeats.emit_enabled


def test_heartbeats_of_one_pair_win_over_the_global_switch(load: Load) -> None:
    """testClusterPairsWithGloballyDisabledHeartbeatsAndOneEnabled, and the reverse."""
    assert _names(load("emit.heartbeats.enabled = false\na->b.emit.heartbeats.enabled = true", _THREE)) == ["a->b"]
    assert "a->b" not in _names(load("a->b.emit.heartbeats.enabled = false", _THREE))


def test_global_enabled_enables_the_flows_that_exist(load: Load) -> None:
    """``enabled`` is a connector key like others, but flows come to exist by their own ``enabled`` only."""
    assert all(flow.enabled for flow in load("enabled = true", _THREE).settings.flows)
    assert _names(load("enabled = true\nemit.heartbeats.enabled = false", _THREE)) == []


def test_aliases_may_hold_dots(load: Load) -> None:
    """And be prefixes of each other."""
    text = "clusters = a.b, a\na.b.bootstrap.servers = x:1\na.bootstrap.servers = y:1\n"
    loaded = load("", text + "a.b->a.enabled = true\na.b->a.topics = t\n")
    assert loaded.settings.clusters["a.b"].bootstrap_servers == ("x:1",)
    assert _flow(loaded, "a.b->a").topics.include == ("t",)


# What wins


def test_flow_key_wins_over_the_top(load: Load) -> None:
    """MM2's testIncludesConnectorConfigProperties and testIncludesTopicFilterProperties: tables of flow keys."""
    loaded = load("topics = x\nA->B.topics = y, z.*\nreplication.factor = 3\nB->A.replication.factor = 1")
    assert _flow(loaded).topics.include == ("y", "z.*")
    assert _flow(loaded, "B->A").topics.include == ("x",)
    assert (_flow(loaded).topics.replication_factor, _flow(loaded, "B->A").topics.replication_factor) == (3, 1)


def test_source_clusters_consumer_wins_over_the_flows(load: Load) -> None:
    """Trap: ``A.consumer.x`` beats ``A->B.consumer.x``, and only ``A->B.source.consumer.x`` beats that."""
    text = "A->B.consumer.fetch.min.bytes = 1\nA->B.consumer.fetch.max.wait.ms = 9\n"
    assert _flow(load(text)).fetch.min_bytes == 1
    fetch = _flow(load(text + "A.consumer.fetch.min.bytes = 2")).fetch
    assert (fetch.min_bytes, fetch.max_wait_ms) == (2, 9)
    text += "A.consumer.fetch.min.bytes = 2\nA->B.source.consumer.fetch.min.bytes = 3"
    assert _flow(load(text)).fetch.min_bytes == 3


def test_target_clusters_consumer_does_not_reach_the_source(load: Load) -> None:
    """A flow reads with its source's consumer."""
    assert _flow(load("B.consumer.isolation.level = read_uncommitted")).fetch.isolation_level == "read_committed"
    assert _flow(load("A.consumer.isolation.level = read_uncommitted")).fetch.isolation_level == "read_uncommitted"


def test_data_is_produced_by_the_workers_producer(load: Load) -> None:
    """Trap: ``B.producer.x`` or ``A->B.producer.override.x``; ``A->B.producer.x`` tunes offset syncs only."""
    assert _flow(load("B.producer.compression.type = zstd")).produce.compression_type == "zstd"
    assert _flow(load("A.producer.compression.type = zstd")).produce.compression_type is None
    text = "B.producer.compression.type = zstd\nA->B.producer.override.compression.type = LZ4\n"
    assert _flow(load(text)).produce.compression_type == "lz4"
    loaded = load("A->B.producer.compression.type = zstd")
    assert _flow(loaded).produce.compression_type is None
    (note,) = [note for note in loaded.notes if note.key == "A->B.producer.compression.type"]
    assert note.kind == "ignored"
    assert "SOURCE->TARGET.producer.override.KEY" in note.text


def test_no_compression_passes_through(load: Load) -> None:
    """``none`` does not take compressed batches apart, and a note says how compression is meant."""
    loaded = load("B.producer.compression.type = none")
    assert _flow(loaded).produce.compression_type is None
    assert [note.kind for note in loaded.notes if note.key == "B.producer.compression.type"] == ["differs"]


def test_client_keys_without_an_alias_have_no_effect(load: Load) -> None:
    """Trap: as in MM2, and a note says so."""
    loaded = load("consumer.isolation.level = read_uncommitted")
    assert _flow(loaded).fetch.isolation_level == "read_committed"
    assert "ALIAS.consumer.KEY" in next(note.text for note in loaded.notes if note.key == "consumer.isolation.level")


def test_beginning_is_earliest_unless_said(load: Load) -> None:
    """Trap: ``auto.offset.reset`` only defaults; the file's value wins (testReplicateFromLatest)."""
    assert _flow(load("")).fetch.auto_offset_reset == "earliest"
    assert _flow(load("A.consumer.auto.offset.reset = latest")).fetch.auto_offset_reset == "latest"


def test_connection_at_the_top_is_every_clusters_default(load: Load) -> None:
    """testClusterConfigProperties, testClientConfigProperties: a cluster's own value wins."""
    loaded = load("security.protocol = SSL\nssl.truststore.location = /top\nB.ssl.truststore.location = /own")
    a, b = loaded.settings.clusters["A"].security, loaded.settings.clusters["B"].security
    assert (a.protocol, b.protocol) == ("SSL", "SSL")
    assert (a.ssl.truststore_location, b.ssl.truststore_location) == ("/top", "/own")


def test_clients_of_a_cluster_share_its_connection(load: Load, problems: Problems) -> None:
    """Keys repeated for each client are taken, if they agree."""
    text = "A.consumer.security.protocol = SSL\nA.producer.security.protocol = SSL\n"
    assert load(text).settings.clusters["A"].security.protocol == "SSL"
    (problem,) = problems(text + "A.security.protocol = PLAINTEXT\nA.producer.security.protocol = PLAINTEXT")
    assert problem.startswith("A.consumer.security.protocol: differs from A.security.protocol")


def test_cluster_wide_client_keys(load: Load, problems: Problems) -> None:
    """The nearest replica and the time-outs belong to a cluster; enabled flows may not differ in them."""
    loaded = load("A.consumer.client.rack = r1\nA.consumer.metadata.max.age.ms = 7\nB.consumer.client.rack = r2")
    assert loaded.settings.clusters["A"].client_rack == "r1"
    assert loaded.settings.clusters["A"].metadata_max_age_ms == 7
    assert loaded.settings.clusters["B"].client_rack == "r2"
    assert load("A->B.consumer.client.rack = r1").settings.clusters["A"].client_rack == "r1"
    text = "a->b.enabled = true\na->c.enabled = true\na->b.consumer.client.rack = r1"
    assert problems(text, _THREE) == [
        "a->b.consumer.client.rack: holds for a whole cluster; write a.consumer.client.rack instead"
    ]


def test_worker_keys_are_ignored_with_a_reason(load: Load) -> None:
    """MM2's testWorkerConfigs and its like: an existing file's Connect keys do no harm."""
    text = """
B.offset.flush.interval.ms = 5000
B.exactly.once.source.support = enabled
offset.storage.replication.factor = 1
config.storage.replication.factor = 1
status.storage.replication.factor = 1
tasks.max = 10
A->B.tasks.max = 5
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
B.producer.acks = all
B.producer.batch.size = 100000
dedicated.mode.enable.internal.rest = true
listeners = http://localhost:8080
"""
    ignored = {note.key: note.text for note in load(text).notes if note.kind == "ignored"}
    lines = [line.partition(" ")[0] for line in text.split("\n") if line]
    assert set(ignored) == {line for line in lines if line != "key.converter"}
    assert "--replicators" in ignored["tasks.max"]


# Values


def test_policy_keys_reach_the_policy(load: Load) -> None:
    """testIncludesReplicationPolicyProperties: of one flow, or of all; unknown ones are a custom class's."""
    text = "replication.policy.separator = _\nA->B.replication.policy.internal.topic.separator.enabled = false\n"
    policy = _flow(load(text)).policy
    assert (policy.separator, policy.internal_topic_separator_enabled) == ("_", False)
    assert _flow(load("replication.policy.infix = x")).policy.options == {"replication.policy.infix": "x"}


def test_lists(load: Load) -> None:
    """testMultipleClusters...: items are trimmed; an empty list is not the default list."""
    flow = _flow(load("topics = one , two,three\ntopics.exclude =\ngroups = g\nA.bootstrap.servers = a:1, b:2"))
    assert flow.topics.include == ("one", "two", "three")
    assert flow.topics.exclude == ()
    assert flow.groups.include == ("g",)


def test_negative_interval_turns_a_feature_off(load: Load) -> None:
    """MM2 never schedules what has a negative interval."""
    assert not _flow(load("refresh.topics.interval.seconds = -1")).topics.refresh_enabled
    flow = _flow(load("emit.heartbeats.interval.seconds = -1\nsync.group.offsets.interval.seconds = 60"))
    assert not flow.heartbeats.emit_enabled
    assert flow.groups.sync_offsets_interval_s == 60


def test_silence_gives_our_defaults_and_says_so(load: Load) -> None:
    """Explicit values win; where the file is silent, each deviation from MM2 is a note."""
    loaded = load("replication.factor = 2\nsync.group.offsets.enabled = false")
    assert _flow(loaded).topics == TopicSettings(replication_factor=2)
    assert _flow(loaded).groups == GroupSettings(sync_offsets_enabled=False)
    defaults = {note.key for note in loaded.notes if note.kind == "default"}
    assert {"refresh.topics.interval.seconds", "isolation.level"} <= defaults
    assert not {"replication.factor", "sync.group.offsets.enabled"} & defaults


def test_values_come_from_providers(load: Load, tmp_path: Path) -> None:
    """testConfigsWithProviders, testEncryptedConfigs: at the top, in clusters and in flows."""
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password = s3cret\ntopics = orders\n")
    loaded = load(
        f"""
config.providers = file, env
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
ssl.key.password = ${{env:KEY_PASSWORD}}
A.ssl.truststore.password = ${{file:{secrets}:password}}
A->B.topics = ${{file:{secrets}:topics}}
""",
        KEY_PASSWORD="k3y",
    )
    ssl = loaded.settings.clusters["A"].security.ssl
    assert ssl.truststore_password is not None
    assert ssl.key_password is not None
    assert (ssl.truststore_password.reveal(), ssl.key_password.reveal({"KEY_PASSWORD": "k3y"})) == ("s3cret", "k3y")
    assert _flow(loaded).topics.include == ("orders",)
    assert "s3cret" not in repr(loaded)
    assert "k3y" not in repr(loaded)


# Our own keys


def test_trouble_policy_and_its_kinds(load: Load) -> None:
    """One policy for all, another one for a kind, another one for a flow; the default is to stop."""
    flow = _flow(load("trouble.policy = skip\nA->B.trouble.policy.target_foreign = RESYNC"))
    assert flow.trouble.policy_for("source_removed") == "skip"
    assert flow.trouble.policy_for("target_foreign") == "resync"
    assert _flow(load("")).trouble.policy_for("copy_lost") == "stop"


def test_offset_reset_that_the_file_gives_skips_removed_records(load: Load) -> None:
    """MM2's answer only where it is asked for; a trouble.policy is the later word."""
    assert _flow(load("")).trouble.policy_for("source_removed") == "stop"
    reset = _flow(load("A.consumer.auto.offset.reset = earliest")).trouble
    assert (reset.policy_for("source_removed"), reset.policy_for("source_truncated")) == ("skip", "stop")
    both = _flow(load("A.consumer.auto.offset.reset = earliest\ntrouble.policy = stop")).trouble
    assert both.policy_for("source_removed") == "stop"
    exact = _flow(load("A.consumer.auto.offset.reset = latest\ntrouble.policy.source_removed = stop")).trouble
    assert exact.policy_for("source_removed") == "stop"


def test_delivery_guarantee_and_shared_topics(load: Load) -> None:
    """Both are a flow's own."""
    flow = _flow(load("A->B.delivery.guarantee = AT_LEAST_ONCE\nshared.remote.topics = merged.*, all"))
    assert flow.produce.delivery_guarantee == "at_least_once"
    assert flow.topics.shared_remote == ("merged.*", "all")
    assert _flow(load("")).produce.delivery_guarantee == "exactly_once"


def test_policies_of_configs_and_opt_ins_of_acls(load: Load) -> None:
    """By config, for all flows or one; what MM2 leaves out is off."""
    flow = _flow(load("sync.topic.configs.policy = retention.ms:FLOOR, cleanup.policy : target"))
    assert flow.topics.sync_configs_policy == {"retention.ms": "floor", "cleanup.policy": "target"}
    assert not flow.topics.sync_acls_patterns
    assert _flow(load("A->B.sync.topic.acls.revocations.enabled = true")).topics.sync_acls_revocations


def test_transforms_are_written_as_connects(load: Load) -> None:
    """Listed by name; a flow's own list replaces the one at the top, and its keys those at the top."""
    loaded = load(
        """
        A->B.enabled = true
        B->A.enabled = true
        transforms = mask, eu
        transforms.mask.type = mirror_ray.transforms:MaskJsonFields
        transforms.mask.fields = a.b, c
        transforms.mask.topics = orders, users
        transforms.eu.type = mirror_ray.transforms:FilterByKey
        transforms.eu.pattern = eu-.*
        A->B.transforms.eu.pattern = us-.*
        B->A.transforms =
        transform.errors = Dead_Letter
        transform.dead.letter.topic = lost
        """
    )
    transforms = _flow(loaded).transforms
    assert [(step.type.partition(":")[2], step.options, step.topics) for step in transforms.steps] == [
        ("MaskJsonFields", {"fields": "a.b, c"}, ("orders", "users")),
        ("FilterByKey", {"pattern": "us-.*"}, (".*",)),
    ]
    assert (transforms.errors, transforms.dead_letter_topic) == ("dead_letter", "lost")
    assert not _flow(loaded, "B->A").transforms.steps


def test_labels_of_nodes_for_replicators(load: Load, problems: Problems) -> None:
    """As Ray writes labels; its selectors' operators are refused."""
    labels = load("placement.labels = ray.io/availability-region=eu-1, mirror=yes").settings.placement.labels
    assert labels == {"ray.io/availability-region": "eu-1", "mirror": "yes"}
    (problem,) = problems("placement.labels = mirror=!yes")
    assert problem.startswith("placement.labels")
