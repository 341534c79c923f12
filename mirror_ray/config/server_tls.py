"""The TLS context of a server, by its certificate and key."""

from __future__ import annotations

import ssl
from pathlib import Path


def server_context(certificate: str, key: str) -> ssl.SSLContext:
    """A context for TLS 1.2 and later from two PEM files.

    Raises:
        ValueError: They can't be used; the text begins with ``certificate`` or ``key``, whichever is wrong.
    """
    for name, path in (("certificate", certificate), ("key", key)):
        try:
            pem = Path(path).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "that is no path"
            raise ValueError(f"{name}: {path!r} can't be read here: {reason}") from error
        if b"-----BEGIN " not in pem:
            raise ValueError(f"{name}: {path!r} is not PEM; it begins with -----BEGIN")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    has_passphrase: list[bool] = []

    def no_passphrase() -> str:
        has_passphrase.append(True)
        return ""

    try:
        context.load_cert_chain(certificate, key, no_passphrase)
    except (OSError, ValueError) as error:
        if has_passphrase:
            raise ValueError(f"key: {key!r} has a passphrase; write it without one, readable by its owner") from error
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise ValueError(f"key: {key!r} is not the key of the certificate {certificate!r}") from error
        raise ValueError(f"certificate: {certificate!r} and {key!r} are no certificate and its key: {error}") from error
    return context
