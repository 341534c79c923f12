"""What all administrative clients share: the connection, calls, and the errors that failures are raised as."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from threading import Lock
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException

from mirror_ray.config.settings import ClusterSettings
from mirror_ray.kafka.admin_client import CollectableAdminClient
from mirror_ray.kafka.credential_renewal import CredentialRenewal
from mirror_ray.kafka.errors import no_broker_in_service
from mirror_ray.kafka.librdkafka import (
    FENCED_PAUSE_S,
    REFUSED_CREDENTIALS,
    ErrorLog,
    client_config,
    described,
    list_in_service,
    mirror_error,
)
from mirror_ray.kafka.probe import begin_probe
from mirror_ray.model.errors import AccessDeniedError, ClusterUnreachableError, KafkaProtocolError, MirrorError

_T = TypeVar("_T")

#: Resources in one request: keeps requests and answers small where there are ten thousand.
_CHUNK: Final = 500
#: One try to list topics: short, so that refused credentials are reported soon, and long enough for many topics.
_TRY_S: Final = 3.0
#: How much longer a probe may take than the client whose failure it explains.
_PROBE_LATER_S: Final = 4.0
#: A request that takes longer is waited for only while the cluster has a broker in service.
_STALL_S: Final = 5.0


class AdminConnection:
    """An administrative client of one cluster. Thread-safe.

    Every method may raise ClusterUnreachableError, and AdminError where a broker refuses the request as a whole.
    """

    def __init__(self, cluster: ClusterSettings, client_id: str) -> None:
        self.cluster = cluster
        self._client_id = client_id
        self._timeout_s = cluster.request_timeout_ms / 1000
        self._errors = ErrorLog(cluster.alias, client_id)
        self._opened: CollectableAdminClient | None = None
        self._renewal = CredentialRenewal(cluster)
        self._opening = Lock()

    def close(self) -> None:
        """Close the connections; they are opened again on next use."""
        with self._opening:
            self._opened = None

    @property
    def _client(self) -> CollectableAdminClient:
        """Made on first use, when credentials work; made again where TLS files have changed, or nobody answered."""
        with self._opening:
            if self._opened is None or not self._renewal.renew(self._opened):
                renewal = CredentialRenewal(self.cluster)
                config = client_config(self.cluster, self._client_id) | {"error_cb": self._errors}
                self._opened, self._renewal = CollectableAdminClient(config), renewal
            return self._opened

    def ping(self, timeout_s: float | None = None) -> None:
        """Reach any broker within ``timeout_s`` (default: the cluster's connection setup timeout).

        Raises:
            ClusterUnreachableError: None answered, or it refused us; the text holds the last reason.
        """
        self._describe(timeout_s)

    def _describe(self, timeout_s: float | None = None) -> Any:
        """The cluster's metadata, all topics; tried again until the time is over or our credentials are refused.

        Raises:
            ClusterUnreachableError: None answered, or all that do are fenced: nothing can be asked of them.
        """
        limit = self.cluster.connection_setup_timeout_ms / 1000 if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit
        self._errors.last, probe, fenced = None, None, False
        while True:
            left = deadline - time.monotonic()
            try:
                metadata = list_in_service(self._client, None, max(0.1, min(_TRY_S, left)))
            except KafkaException as error:
                failure = self._error("describe the cluster", error)
                if (error_code(failure) or 0) > 0:
                    raise failure from error
                if fenced and left <= _TRY_S:
                    self.close()
                    raise no_broker_in_service(self.cluster) from error
                # The errors of raw connections say more than this client's.
                probe = probe or begin_probe(self.cluster)
                if (
                    left <= _TRY_S
                    or self._refused()
                    or (probe.done() and isinstance(probe.result(), AccessDeniedError))
                ):
                    self.close()
                    raise _problem(probe) or ClusterUnreachableError(str(failure)) from error
                continue
            if metadata is not None:
                return metadata
            if not fenced:
                # librdkafka 2.10 and later may take no broker in service for no broker at all, and never ask again.
                self.close()
            fenced = True
            if left <= 0:
                raise no_broker_in_service(self.cluster)
            time.sleep(FENCED_PAUSE_S)

    def _refused(self) -> bool:
        return self._errors.last is not None and self._errors.last.code() in REFUSED_CREDENTIALS

    def _call(self, method: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        self._client.poll(0)
        return method(*args, request_timeout=self._timeout_s, **kwargs)

    def _settle(self, futures: Mapping[Any, Future[Any]], what: str) -> dict[Any, Any]:
        """Each future's result, or the MirrorError that its failure means.

        Raises:
            ClusterUnreachableError: The request did not reach the cluster.
        """
        outcomes: dict[Any, Any] = {}
        for key, future in futures.items():
            try:
                outcomes[key] = self._result(future)
            except KafkaException as error:
                outcomes[key] = self._error(what.format(key), error)
                if isinstance(outcomes[key], ClusterUnreachableError):
                    self.close()
                    raise outcomes[key] from error
        return outcomes

    def _result(self, future: Future[_T]) -> _T:
        """A future's result. It raises before the request's timeout where no broker is in service, or none answers."""
        while True:
            done, _ = wait([future], _STALL_S)
            if done:
                return future.result()
            self._describe(_STALL_S)

    def _error(self, what: str, error: KafkaException) -> MirrorError:
        self._client.poll(0)
        last = self._errors.last
        if last is None:
            return mirror_error(self.cluster, what, error)
        return mirror_error(self.cluster, what, KafkaException(last) if self._refused() else error, described(last))


def _problem(probe: Future[MirrorError | None]) -> MirrorError | None:
    try:
        return probe.result(_PROBE_LATER_S)
    except TimeoutError:
        return None


def error_code(outcome: object) -> int | None:
    """The broker's error code in an outcome; None where it is none."""
    return outcome.code if isinstance(outcome, KafkaProtocolError) else None


def chunks(items: Collection[_T], most: int = _CHUNK) -> Iterator[list[_T]]:
    """``items`` in order, as many at a time as one request may name."""
    ordered = list(items)
    for start in range(0, len(ordered), most):
        yield ordered[start : start + most]
