"""The certificates of a Kubernetes cluster, and kubeconfigs that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mirror_ray.lab.devcluster.certificates import certificate_builder, host_name, key_pem, write_private


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A key and the certificate for it, as files."""

    certificate: Path
    key: Path


class ClusterPki:
    """One authority for all of a cluster, below ``directory``; keys are there unencrypted."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("kubernetes")
        self._authority = _signed(
            certificate_builder(self._name, self._name, self._key.public_key()).add_extension(
                x509.BasicConstraints(ca=True, path_length=0), critical=True
            ),
            self._key,
        )
        #: The authority's certificate, PEM.
        self.authority = directory / "ca.crt"
        self.authority.write_bytes(_pem(self._authority))

    def issue(self, file_name: str, user: str, *, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> Identity:
        """A certificate for a user of those groups, who also serves as ``hosts``."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = certificate_builder(_name(user, *groups), self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([host_name(host) for host in hosts]), critical=False
            )
        return self._written(file_name, key, _pem(_signed(builder, self._key)))

    def key_pair(self, file_name: str) -> Identity:
        """A key by which tokens are signed; the certificate is the public key alone."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return self._written(file_name, key, public)

    def kubeconfig(self, path: Path, identity: Identity, api_url: str) -> Path:
        """A file by which a client of the API shows that certificate."""
        path.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "tests",
                    "clusters": [
                        {"name": "tests", "cluster": {"server": api_url, "certificate-authority": str(self.authority)}}
                    ],
                    "users": [
                        {
                            "name": "user",
                            "user": {"client-certificate": str(identity.certificate), "client-key": str(identity.key)},
                        }
                    ],
                    "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "user"}}],
                }
            )
        )
        return path

    def _written(self, file_name: str, key: ec.EllipticCurvePrivateKey, public: bytes) -> Identity:
        identity = Identity(certificate=self._directory / f"{file_name}.crt", key=self._directory / f"{file_name}.key")
        identity.certificate.write_bytes(public)
        write_private(identity.key, key_pem(key))
        return identity


def _name(user: str, *groups: str) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    return builder.sign(key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
