"""What a protected cluster tells its brokers and its clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from mirror_ray.lab.devcluster import DevCluster, DevSecurity
from mirror_ray.lab.devcluster.certificates import STORE_PASSWORD, CertificateAuthority
from mirror_ray.lab.devcluster.clusters import mm2_properties


def test_scram_over_tls_speaks_kafkas_words(tmp_path: Path) -> None:
    """A client's properties are those of a Java client, with a JAAS line for the user."""
    cluster = DevCluster("s", security=DevSecurity.scram_over_tls(), data_dir=tmp_path)
    assert cluster.client_properties("alice") == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="alice-secret";',
        "ssl.truststore.location": str(tmp_path / "tls" / "ca.pem"),
        "ssl.truststore.type": "PEM",
    }


def test_a_plain_server_knows_every_user() -> None:
    """PLAIN keeps its users in the server's JAAS line."""
    properties = DevSecurity.plain().listener_properties("CLIENT", None)
    assert 'user_alice="alice-secret"' in properties["listener.name.client.plain.sasl.jaas.config"]


def test_passwords_are_not_in_reprs() -> None:
    """A security value can be printed without giving anything away."""
    assert "secret" not in repr(DevSecurity.scram_over_tls())


def test_certificates_are_signed_by_the_authority(tmp_path: Path) -> None:
    """A user's PEM holds a certificate that the authority's key signed."""
    authority = CertificateAuthority(tmp_path)
    issuer = load_pem_x509_certificate(authority.truststore("PEM").read_bytes())
    load_pem_x509_certificate(authority.keystore("alice", "PEM").read_bytes()).verify_directly_issued_by(issuer)


def test_a_pkcs12_store_opens_with_its_password(tmp_path: Path) -> None:
    """The PKCS12 key store holds the key, its certificate and the authority's."""
    store = CertificateAuthority(tmp_path).keystore("alice", "PKCS12").read_bytes()
    key, certificate, chain = pkcs12.load_key_and_certificates(store, STORE_PASSWORD.encode())
    assert key is not None
    assert certificate is not None
    assert len(chain) == 1


def test_a_data_directory_keeps_ports_and_cluster_id(tmp_path: Path) -> None:
    """A later cluster in the same directory is the same cluster at the same addresses."""
    first, second = (DevCluster("k", 3, data_dir=tmp_path) for _ in range(2))
    assert (first.bootstrap, first.cluster_id) == (second.bootstrap, second.cluster_id)


@pytest.mark.parametrize("brokers", [1, 3])
def test_ports_are_distinct(tmp_path: Path, brokers: int) -> None:
    """No two brokers are given one port."""
    assert len(set(DevCluster("d", brokers, data_dir=tmp_path).bootstrap.split(","))) == brokers


def test_mm2_properties_has_flows_both_ways(tmp_path: Path) -> None:
    """Two plain clusters make a file of five lines."""
    pair = [DevCluster(alias, data_dir=tmp_path / alias) for alias in "AB"]
    assert mm2_properties(pair).splitlines() == [
        "clusters = A, B",
        f"A.bootstrap.servers = {pair[0].bootstrap}",
        f"B.bootstrap.servers = {pair[1].bootstrap}",
        "A->B.enabled = true",
        "B->A.enabled = true",
    ]
