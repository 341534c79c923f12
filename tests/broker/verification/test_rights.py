"""What `verify` says where rights are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation  # type: ignore[attr-defined]
from typer.testing import CliRunner

from mirror_ray.cli.app import app
from mirror_ray.lab.devcluster import DevListener
from mirror_ray.model.internal_topics import segments_topic
from mirror_ray.verification import run
from tests.support.clusters import ensure_topic
from tests.support.kafka import create_topic
from tests.support.rights import grant


def test_why_the_segments_topic_can_not_be_read_is_said(
    guarded: DevListener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It said that the topic could not be read, and the reason only in a warning."""
    monkeypatch.setattr(run, "_TIMEOUT_S", 2.0)
    segments = segments_topic("V")
    ensure_topic(guarded, segments)
    for name in ("seen", "V.seen"):
        create_topic(guarded.confluent_config(), name, 1)
        grant(guarded, name, AclOperation.READ, AclOperation.DESCRIBE)
    grant(guarded, segments, AclOperation.DESCRIBE)
    config = tmp_path / "mm2.properties"
    sasl = f'username="alice" password="{guarded.security.users["alice"]}"'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config.write_text(
        "clusters = V, W\nV->W.enabled = true\nV->W.topics = seen\nsecurity.protocol = SASL_PLAINTEXT\n"
        f"sasl.mechanism = PLAIN\nsasl.jaas.config = {module} required {sasl};\n"
        + "".join(f"{alias}.bootstrap.servers = {guarded.bootstrap}\n" for alias in "VW")
    )
    result = CliRunner().invoke(app, ["verify", "V->W", "--config", str(config), "--name", "nobody"])
    assert result.exit_code == 3, result.output
    assert f"topic {segments} can't be read" in result.output
    assert "TOPIC_AUTHORIZATION_FAILED" in result.output.split("could not be read")[1]
