"""What raw connections see of a cluster: why nobody gets in, where confluent-kafka says little, or wrong things.

Their texts name certificates, ports that speak something else, and our keys. They also hold against a broker what
librdkafka does not: who asks for few SCRAM iterations is not spoken to by any client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.cluster import CONTROL, ClusterConnections, host_and_port
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import no_broker_answers
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError, MirrorError

_CLIENT_ID: Final = "mirror-ray-probe"
#: For each connection, and again for what is asked on it.
_PATIENCE_MS: Final = 3_000
#: What all of it may take: two connections after each other, and an answer.
_LIMIT_S: Final = 7.0
_PROBES: Final = ThreadPoolExecutor(4, "probe")


def begin_probe(cluster: ClusterSettings) -> Future[MirrorError | None]:
    """Look at a cluster while something else goes on; see :func:`probe`."""
    return _PROBES.submit(probe, cluster)


def probe(cluster: ClusterSettings) -> MirrorError | None:
    """Why raw connections don't get in; None: they do, to all bootstrap servers that answer and to all brokers.

    Blocking, for 7 s at most; from any thread that runs no event loop. It is a NotLetInError where a broker refuses us,
    or we it.
    """
    return asyncio.run(_probe(cluster))


async def _probe(settings: ClusterSettings) -> MirrorError | None:
    short = settings.model_copy(
        update={
            "connection_setup_timeout_ms": min(settings.connection_setup_timeout_ms, _PATIENCE_MS),
            "request_timeout_ms": min(settings.request_timeout_ms, _PATIENCE_MS),
        }
    )
    cluster = ClusterConnections(short, _CLIENT_ID)
    try:
        async with asyncio.timeout(_LIMIT_S):
            await _greet(short)
            brokers = (await cluster.refresh([])).brokers
            found = await asyncio.gather(*(cluster.connect(each, CONTROL) for each in brokers), return_exceptions=True)
        return _of_brokers(settings, found)
    except MirrorError as error:
        return _with_hint(settings, error)
    except TimeoutError:
        return ClusterUnreachableError(f"cluster {settings.alias}: no answer within {_LIMIT_S:g} s")
    finally:
        await cluster.close()


async def _greet(settings: ClusterSettings) -> None:
    """Connect to all bootstrap servers: one that is not to be believed is not hidden by one that is.

    Raises:
        NotLetInError: One refuses us, or we it.
        ClusterUnreachableError: No connection came about; names each one's error.
    """
    security = ClientSecurity.build(settings.alias, settings.security)
    openings = (
        Connection.open(
            host,
            port,
            security=security,
            client_id=_CLIENT_ID,
            setup_timeout_s=settings.connection_setup_timeout_ms / 1000,
            request_timeout_s=settings.request_timeout_ms / 1000,
        )
        for host, port in map(host_and_port, settings.bootstrap_servers)
    )
    found = await asyncio.gather(*openings, return_exceptions=True)
    for each in found:
        if isinstance(each, Connection):
            each.close()
    for each in found:
        if isinstance(each, BaseException) and not isinstance(each, ConnectionError):
            raise each
    if all(isinstance(each, ConnectionError) for each in found):
        raise no_broker_answers(settings, map(str, found))


def _of_brokers(settings: ClusterSettings, found: Iterable[Connection | BaseException]) -> MirrorError | None:
    problems = [each for each in found if isinstance(each, Exception)]
    refusal = next((each for each in problems if isinstance(each, AccessDeniedError)), None)
    if refusal is not None or not problems:
        return refusal
    return ClusterUnreachableError(
        f"cluster {settings.alias}: its bootstrap servers answer, and brokers at the addresses that they name don't "
        f"({'; '.join(map(str, problems))}): check advertised.listeners of the brokers, and the network"
    )


def _with_hint(settings: ClusterSettings, error: MirrorError) -> MirrorError:
    if isinstance(error, AccessDeniedError):
        return error
    text = str(error)
    if isinstance(error.__cause__, ConnectionError) and not settings.security.protocol.startswith("SASL_"):
        text += f" Does that port want SASL? {settings.alias}.security.protocol = {settings.security.protocol}"
    return ClusterUnreachableError(text)
