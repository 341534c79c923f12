"""TLS material out of what Kafka's ``ssl.*`` keys name: PEM text, PEM files, JKS and PKCS12 stores.

A store's kind is read from its first bytes, as Java does it in effect: a PKCS12 file under ``ssl.keystore.type=JKS``
works there too. Everything becomes PEM in memory, the private key without its password.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mirror_ray.config.files import read_regular
from mirror_ray.config.secrets import Secret
from mirror_ray.config.settings import SslSettings
from mirror_ray.model.errors import ConfigError

if TYPE_CHECKING:
    # Where it is used it is imported late: most connections need none of it.
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC = b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_PEM_BEGIN = b"-----BEGIN "
_CERTIFICATE_BEGIN = "-----BEGIN CERTIFICATE-----"
_CERTIFICATE_END = "-----END CERTIFICATE-----"

#: A store of all public authorities has half a megabyte.
_LARGEST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsMaterial:
    """PEM texts: the authorities to trust (None: the system's), and our own chain and key (None: we have none)."""

    authorities: str | None = None
    chain: str | None = None
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    trusted: tuple[str, ...]
    chain: str | None = None
    key: str | None = field(default=None, repr=False)


def load_tls_material(alias: str, settings: SslSettings) -> TlsMaterial:
    """Read the stores that a cluster's settings name.

    Raises:
        ConfigError: A file is missing or unreadable, a password is wrong, or a store lacks what it is for; names the
            key and the file.
    """
    authorities = settings.truststore_certificates
    if authorities is None and settings.truststore_location is not None:
        key = f"{alias}.ssl.truststore.location"
        store = _read_store(key, settings.truststore_location, settings.truststore_password, None)
        if not store.trusted:
            raise ConfigError(f"{key}: {settings.truststore_location} holds no certificate")
        authorities = "".join(store.trusted)
    chain, private_key = _own_identity(alias, settings)
    return TlsMaterial(authorities=authorities, chain=chain, key=private_key)


def _own_identity(alias: str, settings: SslSettings) -> tuple[str | None, str | None]:
    if settings.keystore_key is not None:
        key = f"{alias}.ssl.keystore.key"
        if settings.keystore_certificate_chain is None:
            raise ConfigError(f"{key}: it needs ssl.keystore.certificate.chain beside it")
        pem = reveal(key, settings.keystore_key).encode()
        return settings.keystore_certificate_chain, _plain_key(key, "the text", pem, settings.key_password)
    if settings.keystore_location is None:
        return None, None
    key = f"{alias}.ssl.keystore.location"
    store = _read_store(key, settings.keystore_location, settings.keystore_password, settings.key_password)
    if store.key is None or not store.chain:
        raise ConfigError(f"{key}: {settings.keystore_location} holds no private key with its certificate")
    return store.chain, store.key


def _read_store(key: str, location: str, password: Secret | None, key_password: Secret | None) -> _Store:
    data = _read(key, Path(location))
    if data[:4] in {_JKS_MAGIC, _JCEKS_MAGIC}:
        return _read_jks(key, location, data, password, key_password)
    if _PEM_BEGIN in data:
        return _read_pem(key, location, data, key_password or password)
    if data[:1] == _DER_SEQUENCE:
        return _read_pkcs12(key, location, data, password)
    raise ConfigError(f"{key}: {location} is neither PEM nor JKS nor PKCS12")


def _read(key: str, path: Path) -> bytes:
    try:
        data = read_regular(path, _LARGEST_BYTES)
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from error
    if len(data) > _LARGEST_BYTES:
        raise ConfigError(f"{key}: {path} has more than {_LARGEST_BYTES:,} bytes, which no store has")
    return data


def _read_pem(key: str, location: str, data: bytes, password: Secret | None) -> _Store:
    text = data.decode(errors="replace")
    parts = [part.partition(_CERTIFICATE_BEGIN) for part in text.split(_CERTIFICATE_END)[:-1]]
    if not all(begin and body.isascii() for _, begin, body in parts):
        raise ConfigError(f"{key}: {location} holds a certificate that is cut or broken")
    certificates = tuple(f"{begin}{body}{_CERTIFICATE_END}\n" for _, begin, body in parts)
    private = _plain_key(key, location, data, password) if b"PRIVATE KEY-----" in data else None
    return _Store(trusted=certificates, chain="".join(certificates), key=private)


def _plain_key(key: str, what: str, pem: bytes, password: Secret | None) -> str:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    secret = reveal(key, password).encode() if password else None
    try:
        encrypted = b"ENCRYPTED" in pem
        private = load_pem_private_key(pem[pem.index(_PEM_BEGIN) :], secret if encrypted else None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{key}: the private key in {what} can't be read: check ssl.key.password") from error
    return _key_text(private)


def _key_text(private: PrivateKeyTypes) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _read_jks(key: str, location: str, data: bytes, password: Secret | None, key_password: Secret | None) -> _Store:
    # Half a second of imports that only a Java store is worth.
    import jks
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    secret = reveal(key, password) if password else None
    own_secret = reveal(key, key_password) if key_password else secret
    try:
        store = jks.KeyStore.loads(data, secret, try_decrypt_keys=False)
        own = next(iter(store.private_keys.values()), None)
        trusted = [entry.cert for entry in store.certs.values()]
        # As in Java's trust manager, the certificate of an own key is trusted too.
        trusted += [entry.cert_chain[0][1] for entry in store.private_keys.values() if entry.cert_chain]
        if own is None or own_secret is None:
            return _Store(trusted=tuple(_pem("CERTIFICATE", der) for der in trusted))
        own.decrypt(own_secret)
    except jks.KeystoreSignatureException as error:
        raise ConfigError(f"{key}: the password of {location} is wrong") from error
    except jks.DecryptionFailureException as error:
        raise ConfigError(f"{key}: the key in {location} has another password: check ssl.key.password") from error
    except jks.KeystoreException as error:
        raise ConfigError(f"{key}: {location} is a broken key store: {error}") from error
    return _Store(
        trusted=tuple(_pem("CERTIFICATE", der) for der in trusted),
        chain="".join(_pem("CERTIFICATE", der) for _, der in own.cert_chain),
        key=_key_text(load_der_private_key(own.pkey_pkcs8, None)),
    )


def _read_pkcs12(key: str, location: str, data: bytes, password: Secret | None) -> _Store:
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    secret = reveal(key, password).encode() if password else None
    try:
        store = load_pkcs12(data, secret)
    except ValueError as error:
        raise ConfigError(
            f"{key}: {location} can't be opened: its password is wrong, or it is no PKCS12 store"
        ) from error
    others = [entry.certificate for entry in store.additional_certs]
    own = [store.cert.certificate] if store.cert else []
    pems = [certificate.public_bytes(Encoding.PEM).decode() for certificate in own + others]
    private = _key_text(store.key) if store.key else None
    return _Store(trusted=tuple(pems), chain="".join(pems) if own else None, key=private)


def _pem(kind: str, der: bytes) -> str:
    lines: Sequence[str] = textwrap.wrap(base64.b64encode(der).decode(), 64)
    return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])


def reveal(key: str, secret: Secret) -> str:
    """The secret as it is now, on this machine; ``key`` names it and its cluster, for the error.

    Raises:
        ConfigError: A reference leads to nothing here; names the key and the reference.
    """
    try:
        return secret.reveal()
    except LookupError as error:
        raise ConfigError(f"{key}: {error.args[0]}") from error
