"""The kubelet's own server, which the API server asks: logs, commands in containers, ports of pods."""

from __future__ import annotations

import asyncio
import json
import secrets
import ssl
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from tests.support.kubernetes.pod_container import ContainerRunner
from tests.support.kubernetes.pod_worker import PodWorker
from tests.support.kubernetes.spdy import SpdyConnection, SpdyStream

_READ_BYTES = 32 << 10
_LOOKS_EACH_S = 0.2
_PROTOCOLS = ("v4.channel.k8s.io", "portforward.k8s.io")


class Pods(Protocol):
    """Whoever knows the pods of a node."""

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """A pod."""


class RequestError(Exception):
    """What was asked for can't be done."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class ServedRequest:
    """A request, without a body: none that matters has one."""

    parts: list[str]
    query: dict[str, list[str]]
    headers: dict[str, list[str]]

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> ServedRequest:
        """Read one."""
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        url = urlsplit(lines[0].split(" ")[1])
        headers: dict[str, list[str]] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers.setdefault(name.lower(), []).extend(part.strip() for part in value.split(","))
        return cls(url.path.strip("/").split("/"), parse_qs(url.query), headers)

    def flag(self, name: str) -> bool:
        """Whether it says yes to something."""
        return self.query.get(name, [""])[0] in {"1", "true"}


class KubeletApi:
    """Serves by HTTPS, to whom the cluster's certificate authority has given a certificate."""

    def __init__(self, pods: Pods) -> None:
        self._pods = pods

    async def start(self, address: str, port: int, certificate: Path, key: Path, authority: str) -> None:
        """Listen for as long as the process lives."""
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority)
        tls.load_cert_chain(certificate, key)
        tls.verify_mode = ssl.CERT_REQUIRED
        self._server = await asyncio.start_server(self.serve, address, port, ssl=tls)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, on a connection of its own."""
        try:
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._answer(await ServedRequest.read(reader), reader, writer)
        finally:
            writer.close()

    async def _answer(self, request: ServedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._route(request, reader, writer)
        except RequestError as error:
            _head(writer, error.status, "Error")
            writer.write(str(error).encode())
        await writer.drain()

    async def _route(self, request: ServedRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match request.parts:
            case ["healthz"]:
                _head(writer, 200, "OK")
                writer.write(b"ok")
            case ["containerLogs", namespace, pod, container]:
                await self._logs(self._runner(namespace, pod, container), request, writer)
            case ["exec", namespace, pod, container] | ["exec", namespace, pod, _, container]:
                runner = self._runner(namespace, pod, container)
                await _upgraded(request, reader, writer, lambda connection: _execute(runner, request, connection))
            case ["portForward", namespace, pod] | ["portForward", namespace, pod, _]:
                worker = self._worker(namespace, pod)
                await _upgraded(request, reader, writer, lambda connection: _forward(worker, connection))
            case _:
                raise RequestError(404, f"no such path here: /{'/'.join(request.parts)}")

    def _worker(self, namespace: str, pod: str) -> PodWorker:
        worker = self._pods.worker(namespace, pod)
        if worker is None:
            raise RequestError(404, f"pod {namespace}/{pod} does not run on this node")
        return worker

    def _runner(self, namespace: str, pod: str, container: str) -> ContainerRunner:
        runner = self._worker(namespace, pod).runner(container)
        if runner is None:
            raise RequestError(404, f"container {container} is not in pod {pod}")
        return runner

    async def _logs(self, runner: ContainerRunner, request: ServedRequest, writer: asyncio.StreamWriter) -> None:
        file = runner.log(previous=request.flag("previous"))
        if not file.exists():
            why = f"container {runner.record.name} is waiting to start, or has had no run before"
            raise RequestError(400, why)
        _head(writer, 200, "OK")
        with file.open("rb") as stream:
            lines = int(request.query.get("tailLines", ["-1"])[0])
            if lines >= 0:
                whole = stream.read()
                kept = b"".join(whole.splitlines(keepends=True)[-lines:]) if lines else b""
                writer.write(kept)
            while True:
                data = stream.read(_READ_BYTES)
                if data:
                    writer.write(data)
                    await writer.drain()
                elif request.flag("follow") and runner.record.is_running and not writer.is_closing():
                    await asyncio.sleep(_LOOKS_EACH_S)
                else:
                    return


def _head(writer: asyncio.StreamWriter, status: int, reason: str) -> None:
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())


async def _upgraded(
    request: ServedRequest,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    work: Callable[[SpdyConnection], Awaitable[None]],
) -> None:
    """Go over to SPDY."""
    offered = request.headers.get("x-stream-protocol-version", [])
    chosen = next((protocol for protocol in _PROTOCOLS if protocol in offered), None)
    if [name.lower() for name in request.headers.get("upgrade", [])] != ["spdy/3.1"]:
        raise RequestError(400, "this kubelet speaks SPDY/3.1, as the API server does")
    if chosen is None:
        raise RequestError(403, f"none of these protocols is spoken here: {', '.join(offered)}")
    head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    writer.write(f"{head}X-Stream-Protocol-Version: {chosen}\r\n\r\n".encode())
    await writer.drain()
    await work(SpdyConnection(reader, writer))


async def _execute(runner: ContainerRunner, request: ServedRequest, connection: SpdyConnection) -> None:
    wanted = {"error"} | {
        kind
        for kind, flag in {"stdin": "input", "stdout": "output", "stderr": "error", "resize": "tty"}.items()
        if request.flag(flag) and not (kind == "stderr" and request.flag("tty"))
    }
    opened: dict[str, SpdyStream] = {}
    running: asyncio.Task[None] | None = None
    async for stream in connection.streams():
        opened[stream.headers["streamtype"]] = stream
        if running is None and wanted <= set(opened):
            running = asyncio.create_task(_run(runner, request.query["command"], opened))
    if running is not None:
        running.cancel()


async def _run(runner: ContainerRunner, command: list[str], streams: dict[str, SpdyStream]) -> None:
    """Run a command, with its streams, and tell how it ended."""
    process = runner.process
    if process is None:
        message = f"container {runner.record.name} does not run"
        await _tell(streams, {"status": "Failure", "reason": "InternalError", "message": message})
        return
    pipe, file = asyncio.subprocess.PIPE, runner.directory / f"exec-{secrets.token_hex(4)}.json"
    joined = asyncio.subprocess.STDOUT
    child = await process.execute(command, file, stdin=pipe, stderr=pipe if "stderr" in streams else joined)
    feeding = asyncio.create_task(_feed(child, streams.get("stdin")))
    try:
        copies = {"stdout": child.stdout, "stderr": child.stderr}
        await asyncio.gather(*(_copy(source, streams.get(name)) for name, source in copies.items() if source))
        code = await child.wait()
    finally:
        feeding.cancel()
        file.unlink(missing_ok=True)
        if child.returncode is None:
            child.kill()
    await _tell(streams, exit_status(code))


def exit_status(code: int) -> dict[str, Any]:
    """How a command ended, as `kubectl exec` reads it."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _tell(streams: dict[str, SpdyStream], status: dict[str, Any]) -> None:
    await streams["error"].write(json.dumps(status).encode())
    for stream in streams.values():
        await stream.finish()


async def _copy(source: asyncio.StreamReader, target: SpdyStream | None) -> None:
    while data := await source.read(_READ_BYTES):
        if target is not None:
            await target.write(data)


async def _feed(child: asyncio.subprocess.Process, source: SpdyStream | None) -> None:
    assert child.stdin is not None
    with suppress(ConnectionError):
        while source is not None and (data := await source.read()):
            child.stdin.write(data)
            await child.stdin.drain()
    child.stdin.close()


async def _forward(worker: PodWorker, connection: SpdyConnection) -> None:
    """Each request is a pair of streams, for errors and for data: a connection within the pod."""
    errors: dict[str, SpdyStream] = {}
    dials: set[asyncio.Task[None]] = set()
    async for stream in connection.streams():
        request = stream.headers["requestid"]
        if stream.headers["streamtype"] == "error":
            errors[request] = stream
        else:
            dial = asyncio.create_task(_dial(worker, int(stream.headers["port"]), stream, errors[request]))
            dials.add(dial)
            dial.add_done_callback(dials.discard)
    for dial in dials:
        dial.cancel()


async def _dial(worker: PodWorker, port: int, data: SpdyStream, error: SpdyStream) -> None:
    child = await worker.dial(port)
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.create_task(_feed(child, data))
    try:
        await _copy(child.stdout, data)
        await error.write(await child.stderr.read())
        await child.wait()
    except OSError as broken:
        sys.stderr.write(f"port-forward: {broken}\n")
    finally:
        feeding.cancel()
        if child.returncode is None:
            child.kill()
    await data.finish()
    await error.finish()
