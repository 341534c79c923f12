"""Two clusters, A and B, in the foreground until Ctrl-C or until another shell stops them."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import psutil

from mirror_ray.jars.maven import cache_dir, ensure_jars
from mirror_ray.lab.devcluster.cluster import DevCluster
from mirror_ray.lab.devcluster.ports import free_port
from mirror_ray.lab.devcluster.proxy import long_link
from mirror_ray.lab.devcluster.registry import ApicurioRegistry
from mirror_ray.model.errors import MirrorError, NotRunningError
from mirror_ray.writing import writing

#: Where the first broker of each cluster listens if it can.
FIRST_PORTS = {"A": 19092, "B": 29092}
#: Where the schema registry of each cluster listens if it can.
REGISTRY_PORTS = {"A": 18081, "B": 28081}
_STOP_S = 30.0

#: A reader of a pipe gets each line at once, not when the clusters end.
_print_at_once = partial(print, flush=True)


def run_clusters(
    directory: Path | None = None,
    brokers: int = 1,
    *,
    registry: bool = False,
    say: Callable[[str], None] = _print_at_once,
) -> None:
    """Run clusters A and B until SIGINT, SIGTERM or `stop_clusters`. To be called from the main thread.

    Writes ``mm2.properties``, ready to use, into the directory, where the clusters' data stays too: by default
    ``clusters`` in the cache directory. ``registry``: with a schema registry beside each cluster. ``say`` gets each
    progress line for the user.

    Raises:
        MirrorError: They run already, jars can't be had, or a broker or a registry does not come up.
    """
    directory = (directory or cache_dir() / "clusters").absolute()
    running = _running()
    if running is not None:
        raise MirrorError(
            f"the clusters run already, in process {running.pid}: stop them with `mirror-ray clusters down`"
        )
    ensure_jars()
    with ExitStack() as stack:
        stopped = stack.enter_context(_until_signalled())
        clusters = [
            DevCluster(alias, brokers, data_dir=directory / alias, ports=_free_from(FIRST_PORTS[alias], brokers))
            for alias in FIRST_PORTS
        ]
        registries = {alias: _registry(alias, directory) for alias in FIRST_PORTS} if registry else {}
        stack.callback(_state_path().unlink, missing_ok=True)
        with writing(_state_path()):
            _state_path().parent.mkdir(parents=True, exist_ok=True)
            _state_path().write_text(json.dumps({"pid": os.getpid(), "created": psutil.Process().create_time()}))
        for started in registries.values():
            stack.callback(started.close)
            # Clusters take longer to start.
            started.launch()
        stack.enter_context(running_clusters(*clusters))
        for started in registries.values():
            started.wait_started()
        config = write_mm2_properties(directory, clusters, registries={a: r.url for a, r in registries.items()})
        for cluster in clusters:
            say(f"{cluster.name}  {cluster.bootstrap}  logs in {cluster.dir}")
        for alias, started in registries.items():
            say(f"{alias}  {started.url}  log in {started.log_path}")
        say(f"flows A->B and B->A: {config}")
        stopped.wait()


def stop_clusters() -> None:
    """Stop the clusters that another process runs, and wait until they are down.

    Raises:
        NotRunningError: None run.
        MirrorError: They are not down within half a minute.
    """
    process = _running()
    if process is None:
        raise NotRunningError("no clusters run here: start them with `mirror-ray clusters up`")
    process.terminate()
    try:
        process.wait(_STOP_S)
    except psutil.TimeoutExpired:
        raise MirrorError(f"process {process.pid} has not stopped its clusters within {_STOP_S:g} s") from None


@contextmanager
def running_clusters(*clusters: DevCluster) -> Iterator[tuple[DevCluster, ...]]:
    """Start clusters in parallel; they are closed with the context. Raises as ``start_all`` does."""
    with ExitStack() as stack:
        for cluster in clusters:
            stack.callback(cluster.close)
        start_all(clusters)
        yield clusters


def start_all(clusters: Sequence[DevCluster]) -> None:
    """Start clusters in parallel. Raises MirrorError if one does not come up."""
    with ThreadPoolExecutor(max_workers=len(clusters)) as pool:
        for future in [pool.submit(cluster.start) for cluster in clusters]:
            future.result()


@contextmanager
def far_cluster(name: str, brokers: int, delay_s: float, *, heap: str) -> Iterator[tuple[DevCluster, str]]:
    """A cluster, not started yet, with a second listener that is ``delay_s`` away, in each direction.

    Yields:
        The cluster, and the ``bootstrap.servers`` of its far listener.
    """
    ports = [free_port() for _ in range(brokers)]
    with long_link(ports, delay_s) as proxy_ports:
        listeners = [(port, proxy_ports[port]) for port in ports]
        bootstrap = ",".join(f"127.0.0.1:{proxy_port}" for _, proxy_port in listeners)
        yield DevCluster(name, brokers, heap=heap, far_listeners=listeners), bootstrap


def mm2_properties(clusters: Sequence[DevCluster], registries: Mapping[str, str] | None = None) -> str:
    """An ``mm2.properties`` with a flow from each cluster to each other one; ``registries``: URLs by alias."""
    aliases = [cluster.name for cluster in clusters]
    lines = [f"clusters = {', '.join(aliases)}"]
    for cluster in clusters:
        lines.append(f"{cluster.name}.bootstrap.servers = {cluster.bootstrap}")
        properties = cluster.client_properties()
        if properties != {"security.protocol": "PLAINTEXT"}:
            lines += [f"{cluster.name}.{key} = {value}" for key, value in properties.items()]
    lines += [f"{alias}.schema.registry.url = {url}" for alias, url in (registries or {}).items()]
    lines += [f"{source}->{target}.enabled = true" for source in aliases for target in aliases if source != target]
    return "\n".join([*lines, ""])


def write_mm2_properties(
    directory: Path, clusters: Sequence[DevCluster], more: str = "", *, registries: Mapping[str, str] | None = None
) -> Path:
    """Write ``mm2_properties``, and ``more`` lines, to a file in the directory."""
    config = directory / "mm2.properties"
    with writing(config):
        config.write_text(mm2_properties(clusters, registries) + more)
    return config


@contextmanager
def _until_signalled() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; the former handlers are restored with the context."""
    stopped = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    old = [signal.signal(number, lambda *_: stopped.set()) for number in numbers]
    try:
        yield stopped
    finally:
        for number, handler in zip(numbers, old, strict=True):
            signal.signal(number, handler)


def _registry(alias: str, directory: Path) -> ApicurioRegistry:
    ports = _free_from(REGISTRY_PORTS[alias], 1)
    return ApicurioRegistry(alias, data_dir=directory / f"{alias}-registry", port=ports[0] if ports else None)


def _free_from(first: int, count: int) -> list[int] | None:
    """The ports from ``first`` on if all of them are free, else None: then any free ports are taken."""
    wanted = list(range(first, first + count))
    for port in wanted:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return None
    return wanted


def _state_path() -> Path:
    return cache_dir() / "clusters.json"


def _running() -> psutil.Process | None:
    """The process that runs the clusters, if there is one."""
    try:
        state = json.loads(_state_path().read_text())
        process = psutil.Process(state["pid"])
    except (FileNotFoundError, psutil.NoSuchProcess):
        return None
    return process if process.create_time() == state["created"] else None
