"""What raw connections find out about a cluster: its id, and why it can't be connected to.

confluent-kafka says little of the latter, or wrong things. The texts of a probe name certificates, ports that speak
something else, and our keys; and it refuses what librdkafka accepts: a broker that asks for few SCRAM iterations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.blocking import run_blocking
from mirror_ray.kafka.cluster import CONTROL, ClusterConnections, host_and_port
from mirror_ray.kafka.connection import Connection
from mirror_ray.kafka.errors import did_not_answer, no_broker_answers
from mirror_ray.kafka.security import ClientSecurity
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError, MirrorError

_CLIENT_ID: Final = "mirror-ray-probe"
#: For each connection, and again for each request.
_PATIENCE_MS: Final = 3_000
#: For all of it: two connections after each other, and an answer.
_LIMIT_S: Final = 7.0
_ID_PATIENCE_S: Final = 15.0
_PROBES: Final = ThreadPoolExecutor(4, "probe")


async def cluster_id(settings: ClusterSettings) -> str:
    """The id that the cluster's storage was formatted with; "" where its brokers don't tell.

    Raises:
        ClusterUnreachableError: No broker answers, or none accepts us.
        ConfigError: Security settings can't be used.
    """
    cluster = ClusterConnections(settings, "mirror-ray-identity")
    try:
        async with asyncio.timeout(_ID_PATIENCE_S):
            return (await cluster.refresh(())).cluster_id
    except TimeoutError:
        raise did_not_answer(settings, "ask for its id", f"no answer within {_ID_PATIENCE_S:g} s") from None
    finally:
        await cluster.close()


def begin_probe(cluster: ClusterSettings) -> Future[MirrorError | None]:
    """Probe a cluster in the background.

    Returns:
        The future reason why raw connections are refused or don't come about, for 7 s at most; None: they come about,
        to all bootstrap servers that answer and to all brokers. It is an AccessDeniedError where a broker refuses us,
        or we refuse it.
    """
    return _PROBES.submit(lambda: run_blocking(_probe(cluster)))


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
            await _connect_to_all(short)
            brokers = (await cluster.refresh([])).brokers
            openings = (cluster.connect(broker, CONTROL) for broker in brokers)
            found = await asyncio.gather(*openings, return_exceptions=True)
        return _problem_of_brokers(settings, found)
    except MirrorError as error:
        return _with_hint(settings, error)
    except TimeoutError:
        return ClusterUnreachableError(f"cluster {settings.alias}: no answer within {_LIMIT_S:g} s")
    finally:
        await cluster.close()


async def _connect_to_all(settings: ClusterSettings) -> None:
    """Connect to all bootstrap servers: one that we must refuse is not hidden by another one.

    Raises:
        AccessDeniedError: One refuses us, or we refuse it.
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
    outcomes = await asyncio.gather(*openings, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Connection):
            outcome.close()
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, ConnectionError):
            raise outcome
    if all(isinstance(outcome, ConnectionError) for outcome in outcomes):
        raise no_broker_answers(settings, map(str, outcomes))


def _problem_of_brokers(
    settings: ClusterSettings, outcomes: Iterable[Connection | BaseException]
) -> MirrorError | None:
    problems = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    refusal = next((problem for problem in problems if isinstance(problem, AccessDeniedError)), None)
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
