"""A cluster that clients on other machines reach: its brokers listen on that address, and certificates name it."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from mirror_ray.lab.devcluster import DevCluster, DevSecurity


def test_brokers_are_found_at_the_address_and_by_the_names(tmp_path: Path) -> None:
    """Controllers stay on loopback."""
    security = DevSecurity.scram_over_tls()
    cluster = DevCluster("east", security=security, data_dir=tmp_path, ports=[9093], hosts=["192.0.2.7", "east.kafka"])
    lines = (tmp_path / "broker-1" / "server.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert cluster.bootstrap == "192.0.2.7:9093"
    assert properties["advertised.listeners"] == "CLIENT://192.0.2.7:9093"
    assert properties["listeners"].startswith("CLIENT://192.0.2.7:9093,CONTROLLER://127.0.0.1:")
    certificate = x509.load_pem_x509_certificate((tmp_path / "tls" / "broker.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "east.kafka"]
    assert list(map(str, names.get_values_for_type(x509.IPAddress))) == ["127.0.0.1", "192.0.2.7"]
