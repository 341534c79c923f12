"""The gateway over TLS: what it shows, and how a new certificate takes the place of the old one."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from mirror_ray.config.gateway import GatewaySettings, GatewayTls
from mirror_ray.lab.devcluster.certificates import CertificateAuthority
from mirror_ray.model.errors import ConfigError
from mirror_ray.web.access import GatewayAccess
from mirror_ray.web.client_limits import BOUNDS
from tests.web.fakes import Clock, Site, site
from tests.web.raw import request, send, status


@pytest.fixture
def authority(tmp_path: Path) -> CertificateAuthority:
    """Certificates of this test."""
    return CertificateAuthority(tmp_path / "ca")


@pytest.fixture
def pem(authority: CertificateAuthority, tmp_path: Path) -> Path:
    """A certificate and its key in one file, as the gateway has it."""
    path = tmp_path / "gateway.pem"
    path.write_bytes(authority.keystore("first", "PEM").read_bytes())
    return path


@pytest.fixture
async def there(pem: Path) -> AsyncIterator[Site]:
    """A server that speaks TLS."""
    bounds = replace(BOUNDS, handshake_s=0.1, connections=5)
    async with site(bounds=bounds, tls=GatewayTls(certificate=str(pem), key=str(pem))) as there:
        yield there


def _become(there: Site, pem: Path, content: bytes | None) -> None:
    if content is None:
        pem.unlink()
    else:
        pem.write_bytes(content)
    for _ in range(3):
        there.access.renew()


def _trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate_path))


async def _shown(port: int, authority: CertificateAuthority) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=_trusting(authority), server_hostname="localhost")
    shown = x509.load_der_x509_certificate(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
    writer.transport.abort()
    return shown.subject.rfc4514_string()


async def test_it_is_spoken_with(there: Site, authority: CertificateAuthority) -> None:
    """By whoever trusts its authority; the address says so."""
    assert there.url.startswith("https://127.0.0.1:")
    url = there.url.replace("127.0.0.1", "localhost")
    async with there.session.get(f"{url}/api/v1/status", ssl=_trusting(authority)) as answer:
        assert (answer.status, (await answer.json())["name"]) == (200, "mirror")
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await there.session.get(f"{url}/healthz")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_nothing_before_1_2_is_spoken(there: Site, authority: CertificateAuthority) -> None:
    """Nor plain HTTP."""
    old = _trusting(authority)
    old.minimum_version = ssl.TLSVersion.TLSv1
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", there.port, ssl=old, server_hostname="localhost")
    assert status(await send(there.port, request("GET", "/healthz"))) == 0


async def test_a_handshake_that_does_not_end_is_not_waited_for(
    there: Site, authority: CertificateAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    """More of them than there may be connections keep nobody out."""
    waiting = [await asyncio.open_connection("127.0.0.1", there.port) for _ in range(20)]
    assert await _shown(there.port, authority) == "CN=first"
    for reader, writer in waiting:
        async with asyncio.timeout(2):
            await asyncio.gather(reader.read(), return_exceptions=True)
        writer.transport.abort()
    assert not caplog.records


async def test_a_new_certificate_takes_the_place_of_the_old_one(
    there: Site, authority: CertificateAuthority, pem: Path
) -> None:
    """Without a stop: for new connections. One that can't be used is reported, and the old one stays."""
    url = there.url.replace("127.0.0.1", "localhost")
    async with there.session.get(f"{url}/api/v1/stream", ssl=_trusting(authority)) as answer:
        await answer.content.readline()
        _become(there, pem, authority.keystore("second", "PEM").read_bytes())
        assert await _shown(there.port, authority) == "CN=second"
        assert await answer.content.readline()
    _become(there, pem, b"-----BEGIN nothing")
    assert await _shown(there.port, authority) == "CN=second"
    _become(there, pem, None)
    assert await _shown(there.port, authority) == "CN=second"
    renewed, broken, gone = there.access.notices()
    assert (renewed.level, broken.level, gone.level) == ("info", "warning", "warning")
    assert broken.text.startswith("gateway.tls.certificate: ")
    assert "can't be read here: No such file" in gone.text


def test_a_certificate_that_can_not_be_used_is_named() -> None:
    """Where the gateway begins, which may be another machine than the one that loaded the configuration."""
    with pytest.raises(ConfigError, match=r"gateway\.tls\.certificate: '/none'"):
        GatewayAccess(GatewaySettings(tls=GatewayTls(certificate="/none", key="/none")), clock=Clock())
