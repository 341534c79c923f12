"""A certificate authority for clusters on this machine, and certificates in every form that Kafka reads."""

from __future__ import annotations

import datetime as dt
import ipaddress
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from mirror_ray.jars.maven import java_command
from mirror_ray.model.errors import MirrorError

StoreType = Literal["PEM", "JKS", "PKCS12"]

#: The password of every JKS and PKCS12 store.
STORE_PASSWORD = "store-secret"  # noqa: S105 - of clusters on this machine; no secret

_SUFFIX = {"PEM": "pem", "JKS": "jks", "PKCS12": "p12"}
_VALID = dt.timedelta(days=30)


class CertificateAuthority:
    """Certificates below ``directory``, issued when they are first asked for and kept.

    Private keys are there unencrypted: for tests on this machine only. Certificates are also valid for ``hosts``.
    """

    def __init__(self, directory: Path, hosts: Sequence[str] = ()) -> None:
        self.directory, self._hosts = directory, hosts
        directory.mkdir(parents=True, exist_ok=True)
        self._ca_key_path = directory / "ca-key.pem"
        #: The authority's certificate, PEM.
        self.certificate_path = directory / "ca.pem"
        if not self._ca_key_path.exists():
            self._make_authority()

    def truststore(self, store_type: StoreType) -> Path:
        """A store that holds the authority's certificate alone."""
        if store_type == "PEM":
            return self.certificate_path
        path = self.directory / f"truststore.{_SUFFIX[store_type]}"
        if path.exists():
            return path
        if store_type == "PKCS12":
            entry = pkcs12.PKCS12Certificate(self._authority(), b"ca")
            encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
            path.write_bytes(pkcs12.serialize_java_truststore([entry], encryption))
        else:
            arguments = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(self.certificate_path)]
            _keytool(*arguments, "-keystore", str(path), "-storetype", "JKS", "-storepass", STORE_PASSWORD)
        return path

    def keystore(self, name: str, store_type: StoreType) -> Path:
        """A store with the key and the certificate of ``CN=name``, also valid for localhost."""
        pem = self.directory / f"{name}.pem"
        if not pem.exists():
            self._issue(name, pem)
        if store_type == "PEM":
            return pem
        path = self.directory / f"{name}.{_SUFFIX[store_type]}"
        if path.exists():
            return path
        if store_type == "PKCS12":
            key = serialization.load_pem_private_key(pem.read_bytes(), password=None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - _issue writes no other kind; says so to mypy
            certificate = x509.load_pem_x509_certificate(pem.read_bytes())
            encryption = serialization.BestAvailableEncryption(STORE_PASSWORD.encode())
            chain = [self._authority()]
            path.write_bytes(pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, chain, encryption))
        else:
            source = self.keystore(name, "PKCS12")
            arguments = ["-importkeystore", "-noprompt", "-srckeystore", str(source), "-srcstoretype", "PKCS12"]
            arguments += ["-srcstorepass", STORE_PASSWORD, "-deststorepass", STORE_PASSWORD]
            _keytool(*arguments, "-destkeystore", str(path), "-deststoretype", "JKS")
        return path

    def _authority(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate_path.read_bytes())

    def _make_authority(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _common_name("mirror-ray test authority")
        certificate = (
            certificate_builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        self.certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        write_private(self._ca_key_path, key_pem(key))

    def _issue(self, name: str, path: Path) -> None:
        authority_key = serialization.load_pem_private_key(self._ca_key_path.read_bytes(), password=None)
        assert isinstance(authority_key, ec.EllipticCurvePrivateKey)  # noqa: S101 - _issue writes no other kind; says so to mypy
        key = ec.generate_private_key(ec.SECP256R1())
        names = [host_name(host) for host in dict.fromkeys(["localhost", "127.0.0.1", *self._hosts])]
        certificate = (
            certificate_builder(_common_name(name), self._authority().subject, key.public_key())
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
            )
            .sign(authority_key, hashes.SHA256())
        )
        write_private(path, key_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


def certificate_builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    """A certificate from an hour ago on, to be signed."""
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _VALID)
    )


def host_name(host: str) -> x509.GeneralName:
    """An address or a name, as certificates have it."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key, unencrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def write_private(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def _keytool(*arguments: str) -> None:
    keytool = Path(java_command()).with_name("keytool")
    done = subprocess.run(  # noqa: S603 - of the Java that brokers run in; no argument is from outside
        [keytool, *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise MirrorError(f"keytool {arguments[0]} failed, is a JDK in PATH? {done.stdout.strip()}")
