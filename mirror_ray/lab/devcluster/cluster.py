"""A Kafka cluster on this machine: one or more brokers in KRaft mode, each broker and controller in one."""

from __future__ import annotations

import atexit
import base64
import json
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from mirror_ray.jars.maven import ensure_jars
from mirror_ray.lab.devcluster.broker import Broker
from mirror_ray.lab.devcluster.certificates import CertificateAuthority, StoreType
from mirror_ray.lab.devcluster.ports import LOOPBACK, free_port
from mirror_ray.lab.devcluster.process import START_S
from mirror_ray.lab.devcluster.security import DevSecurity
from mirror_ray.writing import writing

#: The listener of every cluster, which brokers use among themselves too; and the one behind a proxy.
_CLIENT, _FAR = "CLIENT", "FAR"


@dataclass(frozen=True)
class DevListener:
    """One listener of a cluster, as its clients see it: for them it is a cluster."""

    cluster: DevCluster
    #: ``bootstrap.servers``.
    bootstrap: str
    security: DevSecurity
    authority: CertificateAuthority | None

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.cluster.cluster_id

    @property
    def brokers(self) -> Sequence[Broker]:
        """The cluster's brokers, in the order of their node ids."""
        return self.cluster.brokers

    def client_properties(self, user: str = "admin", store_type: StoreType = "PEM") -> dict[str, str]:
        """As `DevCluster.client_properties`."""
        return self.security.client_properties(self.authority if self.security.uses_tls else None, user, store_type)

    def confluent_config(self, user: str = "admin") -> dict[str, str | int | float | bool]:
        """As `DevCluster.confluent_config`."""
        authority = self.authority if self.security.uses_tls else None
        return {"bootstrap.servers": self.bootstrap, **self.security.confluent_config(authority, user)}


class DevCluster:
    """Brokers 1..n of one cluster, on loopback, with free ports that stay the same over restarts.

    A context manager that starts and closes it. ``data_dir`` is kept, and a later cluster of as many brokers continues
    with it; without it the data is in a temporary directory that is removed on close. Brokers end with this process,
    however it ends.

    By default clients use PLAINTEXT, without an authorizer, and ports are free ones. ``server_properties`` override
    ours; ``heap`` is each broker's ``-Xmx``. ``listeners`` are further ones by name, each with how its clients
    authenticate; `listener` gives one. ``far_listeners``: for each broker the port of a further listener, and the port
    that it advertises for it: that of a proxy in front of it. ``hosts``: the address of this machine where clients find
    the brokers, and further names of it that certificates are valid for.
    """

    def __init__(
        self,
        name: str,
        brokers: int = 1,
        *,
        security: DevSecurity | None = None,
        data_dir: Path | None = None,
        server_properties: Mapping[str, str] | None = None,
        ports: Sequence[int] | None = None,
        heap: str = "512m",
        jvm_options: Sequence[str] = (),
        listeners: Mapping[str, DevSecurity] | None = None,
        far_listeners: Sequence[tuple[int, int]] = (),
        hosts: Sequence[str] = (LOOPBACK,),
    ) -> None:
        self.name, self._host = name, hosts[0]
        self.security = security or DevSecurity()
        self._temporary = None
        if data_dir is None:
            self._temporary = tempfile.TemporaryDirectory(prefix=f"mirror-ray-{name}-", ignore_cleanup_errors=True)
            data_dir = Path(self._temporary.name)
        self.dir = data_dir.absolute()
        with writing(self.dir):
            self.dir.mkdir(parents=True, exist_ok=True)
        self._securities = {_CLIENT: self.security, **(listeners or {})}
        uses_tls = any(security.uses_tls for security in self._securities.values())
        self._authority = CertificateAuthority(self.dir / "tls", hosts) if uses_tls else None
        self.cluster_id, client_ports, controller_ports = self._identity(brokers, ports)
        voters = ",".join(f"{node}@{LOOPBACK}:{port}" for node, port in enumerate(controller_ports, start=1))
        common = {**_common_properties(brokers), "controller.quorum.voters": voters}
        common |= self._security_properties(far=bool(far_listeners))
        self._ports = {
            _CLIENT: client_ports,
            **{name: [free_port() for _ in range(brokers)] for name in listeners or {}},
        }
        self.brokers = tuple(
            Broker(
                node_id=node,
                port=client_port,
                host=hosts[0],
                directory=self.dir / f"broker-{node}",
                properties={
                    **common,
                    **_listeners(node, controller_port, self._host, self._ports, far_listeners[node - 1 : node]),
                    **(server_properties or {}),
                },
                heap=heap,
                jvm_options=jvm_options,
            )
            for node, (client_port, controller_port) in enumerate(zip(client_ports, controller_ports, strict=True), 1)
        )

    @property
    def bootstrap(self) -> str:
        """``bootstrap.servers``."""
        return ",".join(broker.address for broker in self.brokers)

    def broker(self, node_id: int) -> Broker:
        """The broker whose ``node.id`` this is, as metadata names leaders."""
        return self.brokers[node_id - 1]

    def listener(self, name: str) -> DevListener:
        """The listener of that name, as its clients see it."""
        bootstrap = ",".join(f"{self._host}:{port}" for port in self._ports[name])
        return DevListener(self, bootstrap, self._securities[name], self._authority)

    def log_bytes(self, topic: str) -> int:
        """Size of the topic's logs in the brokers' files, of all partitions and replicas, without indexes."""
        size = 0
        for log in self.dir.glob(f"broker-*/data/{topic}-*/*.log"):
            # The log cleaner may remove a segment at any time; the pattern matches longer names too.
            with suppress(FileNotFoundError):
                size += log.stat().st_size if log.parent.name.rpartition("-")[0] == topic else 0
        return size

    def start(self, timeout_s: float = START_S) -> Self:
        """Start all brokers that don't run, and wait until they serve. Raises MirrorError if one does not."""
        ensure_jars()
        atexit.register(self._kill)
        credentials = list(chain.from_iterable(map(DevSecurity.scram_credentials, self._securities.values())))
        try:
            _in_parallel(lambda broker: broker.format(self.cluster_id, credentials), self.brokers)
            for broker in self.brokers:
                broker.launch()
            for broker in self.brokers:
                broker.wait_started(timeout_s)
        except BaseException:
            self._kill()
            raise
        return self

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop every broker in good order, by SIGKILL after ``timeout_s``. Ports and data stay for another `start`."""
        for broker in self.brokers:
            broker.terminate()
        _in_parallel(lambda broker: broker.wait_stopped(timeout_s), self.brokers)
        atexit.unregister(self._kill)

    def close(self) -> None:
        """Stop it, and remove temporary data: then brokers are killed."""
        if self._temporary is None:
            self.stop()
        else:
            self._kill()
            self._temporary.cleanup()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DevCluster({self.name!r}, {self.bootstrap}, {self.security.protocol})"

    def client_properties(self, user: str = "admin", store_type: StoreType = "PEM") -> dict[str, str]:
        """Properties of Kafka's Java clients for this cluster, without ``bootstrap.servers``."""
        return self.listener(_CLIENT).client_properties(user, store_type)

    def confluent_config(self, user: str = "admin") -> dict[str, str | int | float | bool]:
        """Configuration of a confluent-kafka client of this cluster, with ``bootstrap.servers``."""
        return self.listener(_CLIENT).confluent_config(user)

    def _security_properties(self, *, far: bool) -> dict[str, str]:
        """Protocols, mechanisms and super users, the same for all brokers."""
        protocols: dict[str, str] = {name: security.protocol for name, security in self._securities.items()}
        protocols |= {"CONTROLLER": "PLAINTEXT"} | ({_FAR: self.security.protocol} if far else {})
        properties = {"listener.security.protocol.map": ",".join(map(":".join, protocols.items()))}
        if self.security.mechanism is not None:
            properties["sasl.mechanism.inter.broker.protocol"] = self.security.mechanism
        for name, security in self._securities.items():
            properties |= security.listener_properties(name, self._authority)
        if far:
            properties |= self.security.listener_properties(_FAR, self._authority)
        if self.security.authorizer:
            # Controllers are ANONYMOUS to each other, as are all clients where the protocol is PLAINTEXT.
            principals = {"ANONYMOUS"}.union(*(security.super_principals() for security in self._securities.values()))
            properties |= {
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": ";".join(f"User:{principal}" for principal in sorted(principals)),
            }
        return properties

    def _identity(self, brokers: int, ports: Sequence[int] | None) -> tuple[str, list[int], list[int]]:
        """Cluster id, client ports and controller ports; those of the last time if the directory has them."""
        path = self.dir / "cluster.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        if len(known.get("ports", [])) != brokers:
            # The storage tool would take an id that begins with a dash for an option.
            cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
            known = {"cluster_id": known.get("cluster_id", cluster_id)}
            known |= {kind: [free_port() for _ in range(brokers)] for kind in ("ports", "controller_ports")}
        if ports is not None:
            known["ports"] = list(ports)
        with writing(path):
            path.write_text(json.dumps(known))
        return known["cluster_id"], known["ports"], known["controller_ports"]

    def _kill(self) -> None:
        for broker in self.brokers:
            broker.kill()


def _listeners(
    node_id: int, controller_port: int, host: str, ports: Mapping[str, Sequence[int]], far: Sequence[tuple[int, int]]
) -> dict[str, str]:
    advertised = [f"{name}://{host}:{of_brokers[node_id - 1]}" for name, of_brokers in ports.items()]
    listening = [*advertised, f"CONTROLLER://{LOOPBACK}:{controller_port}"]
    for own_port, advertised_port in far:
        listening.append(f"{_FAR}://{LOOPBACK}:{own_port}")
        advertised.append(f"{_FAR}://{LOOPBACK}:{advertised_port}")
    return {"node.id": str(node_id), "listeners": ",".join(listening), "advertised.listeners": ",".join(advertised)}


def _common_properties(brokers: int) -> dict[str, str]:
    """For small machines: few internal partitions, and a dead broker is fenced after two seconds."""
    factor = str(min(brokers, 3))
    in_sync = str(min(brokers, 2))
    return {
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": _CLIENT,
        "auto.create.topics.enable": "false",
        "default.replication.factor": factor,
        "offsets.topic.num.partitions": "5",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # A killed broker may register again only when its session has run out.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(16 << 20),
        "num.io.threads": "4",
    }


def _in_parallel(action: Callable[[Broker], None], brokers: Sequence[Broker]) -> None:
    with ThreadPoolExecutor(max_workers=len(brokers)) as pool:
        for future in [pool.submit(action, broker) for broker in brokers]:
            future.result()
