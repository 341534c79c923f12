"""Real schema registries: started, killed, restarted, gone when their owner is; those of tests, and their faults."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest

from mirror_ray.jars import maven
from mirror_ray.jars.archives import APICURIO, ensure_archive
from mirror_ray.jars.maven import cache_dir
from mirror_ray.lab.devcluster import ApicurioRegistry, stop_clusters
from tests.support.import_registry import ImportRegistry
from tests.support.processes import wait_ended
from tests.support.registry_http import ask, avro, register
from tests.support.registry_proxy import RegistryProxy

OWNER = """
import threading
from mirror_ray.lab.devcluster import ApicurioRegistry
print(ApicurioRegistry("orphan").start().pid, flush=True)
threading.Event().wait()
"""
_PROTO = '// odd   spaces\nsyntax = "proto3";\nmessage M { int32 a = 1;   }\n'
_JSON = '{ "$schema": "http://json-schema.org/draft-07/schema#",\n  "type": "object" }'


def test_what_is_registered_stays_over_a_kill() -> None:
    """SIGKILL right behind the answer: port, ids and texts are as they were, byte for byte; and after a proper stop."""
    with ApicurioRegistry() as registry:
        texts = {"a": (avro("R", "x"), "AVRO"), "p": (_PROTO, "PROTOBUF"), "j": (_JSON, "JSON")}
        ids = {name: register(registry.url, name, text, schemaType=kind) for name, (text, kind) in texts.items()}
        assert {status for status, _ in ids.values()} == {200}
        for end in (registry.kill, registry.stop):
            end()
            assert registry.pid is None
            with pytest.raises(OSError, match="refused"):
                ask(registry.url, "GET", "/subjects")
            registry.start()
            for name, (text, kind) in texts.items():
                _, found = ask(registry.url, "GET", f"/subjects/{name}/versions/1")
                assert (found["schema"], found["schemaType"], {"id": found["id"]}) == (text, kind, ids[name][1])


def test_a_registry_that_is_held_still_answers_later(apicurio: ApicurioRegistry, subject_prefix: str) -> None:
    """Its connections stay open; nothing is lost."""
    apicurio.suspend()
    try:
        with pytest.raises(TimeoutError):
            apicurio.wait_ready(lambda: _within(apicurio.url, 0.3), 5.0)
    finally:
        apicurio.resume()
    status, answer = register(apicurio.url, f"{subject_prefix}a", avro("R", "x"))
    assert (status, set(answer)) == (200, {"id"})


def _within(url: str, timeout_s: float) -> bool:
    from urllib.request import urlopen

    with urlopen(f"{url}/subjects", timeout=timeout_s):
        return True


def test_a_registry_ends_when_its_owner_is_killed() -> None:
    """As brokers do."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        registry = psutil.Process(int(owner.stdout.readline()))
        assert registry.is_running()
        owner.kill()
        wait_ended(registry, 5.0)


def test_what_apicurio_does_not_have(apicurio: ApicurioRegistry, subject_prefix: str) -> None:
    """Modes and ids from outside are taken without a word and forgotten: the answers say nothing of it but the id."""
    subject = f"{subject_prefix}a"
    assert ask(apicurio.url, "PUT", f"/mode/{subject}", {"mode": "IMPORT"}) == (204, "")
    assert ask(apicurio.url, "GET", f"/mode/{subject}") == (204, "")
    status, answer = register(apicurio.url, subject, avro("R", "x"), id=1_000_000, version=7)
    assert status == 200
    assert answer["id"] != 1_000_000
    assert ask(apicurio.url, "GET", f"/subjects/{subject}/versions") == (200, [1])
    assert [ask(apicurio.url, "GET", path) for path in ("/mode", "/schemas")] == [(404, "")] * 2


def test_import_keeps_ids_and_versions(import_registry: ImportRegistry) -> None:
    """In IMPORT mode alone; an id never changes its schema; a context has its own ids. All of it outlives a kill."""
    url, text = import_registry.url, avro("R", "x")
    assert register(url, "s", text, id=7, version=3)[1]["error_code"] == 42205
    assert ask(url, "PUT", "/mode/s", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    assert register(url, "s", text)[1]["error_code"] == 42205
    assert register(url, "s", text, id=7, version=3)[0] == 200
    assert register(url, "s", avro("R", "y"), id=7, version=4)[1]["error_code"] == 42205
    assert ask(url, "PUT", f"/mode/{quote(':.c:', safe='')}", {"mode": "IMPORT"})[0] == 200
    assert register(url, ":.c:s", avro("R", "y"), id=7, version=1)[0] == 200
    import_registry.kill()
    import_registry.start()
    assert ask(url, "GET", "/subjects/s/versions") == (200, [3])
    assert json.loads(ask(url, "GET", "/schemas/ids/7")[1]["schema"]) == json.loads(text)
    in_context = ask(url, "GET", "/contexts/.c/schemas/ids/7")[1]
    assert json.loads(in_context["schema"]) == json.loads(avro("R", "y"))
    assert register(url, "t", avro("R", "z"))[1]["id"] == 8


def test_deletion_is_soft_first(import_registry: ImportRegistry) -> None:
    """Soft-deleted versions are there for whoever asks; what is referred to can't be deleted."""
    url = import_registry.url
    for field in ("x", "y"):
        assert register(url, "s", avro("R", field))[0] == 200
    refers = [{"name": "R", "subject": "s", "version": 2}]
    assert register(url, "t", '{"type":"array","items":"R"}', references=refers)[0] == 200
    assert ask(url, "DELETE", "/subjects/s/versions/2")[1]["error_code"] == 42206
    assert ask(url, "DELETE", "/subjects/s/versions/1?permanent=true")[1]["error_code"] == 40407
    assert ask(url, "DELETE", "/subjects/s/versions/1") == (200, 1)
    assert ask(url, "GET", "/subjects/s/versions") == (200, [2])
    assert ask(url, "GET", "/subjects/s/versions?deleted=true") == (200, [1, 2])
    assert ask(url, "GET", "/subjects/s/versions/1")[1]["error_code"] == 40402
    assert ask(url, "GET", "/schemas/ids/1/versions") == (200, [])
    assert ask(url, "GET", "/schemas/ids/1/versions?deleted=true") == (200, [{"subject": "s", "version": 1}])
    assert ask(url, "DELETE", "/subjects/s/versions/1?permanent=true") == (200, 1)
    assert ask(url, "GET", "/schemas/ids/1")[1]["error_code"] == 40403


def test_faults_are_injected_and_requests_counted(import_registry: ImportRegistry) -> None:
    """By method and number; an answer can be lost though what was asked is done."""
    url = import_registry.url
    import_registry.fault(status=503, body="busy", methods=["POST"], times=1)
    assert ask(url, "GET", "/subjects") == (200, [])
    assert register(url, "s", avro("R", "x")) == (503, "busy")
    assert ask(url, "GET", "/subjects") == (200, [])
    import_registry.fault(drop=True, carried_out=True, methods=["POST"])
    with pytest.raises(OSError, match=r"closed|reset"):
        register(url, "s", avro("R", "x"))
    import_registry.heal()
    assert ask(url, "GET", "/subjects") == (200, ["s"])
    import_registry.fault(delay_ms=200)
    began_s = time.monotonic()
    ask(url, "GET", "/subjects")
    assert time.monotonic() - began_s >= 0.2
    counts = import_registry.requests(reset=True)
    assert counts["by_path"]["POST /subjects/s/versions"] == 2
    assert import_registry.requests()["total"] == 0


def test_credentials_are_asked_for() -> None:
    """Of every request but the test's own."""
    with ImportRegistry("secured", user_info="user:secret") as registry:
        assert ask(registry.url, "GET", "/subjects")[0] == 401
        with RegistryProxy(registry.url) as proxy:
            assert ask(proxy.url, "GET", "/subjects")[0] == 401


def test_a_proxy_stands_between(apicurio: ApicurioRegistry, subject_prefix: str) -> None:
    """Down, 503, 429, nonsense, read-only, a lost answer; and through again. Names pass as they were quoted."""
    subject = f"{subject_prefix}a/b %2F"
    with RegistryProxy(apicurio.url) as proxy:
        proxy.fail(times=1)
        assert ask(proxy.url, "GET", "/subjects")[0] == 503
        proxy.too_many(1)
        assert ask(proxy.url, "GET", "/subjects") == (429, "slow down")
        proxy.nonsense()
        assert ask(proxy.url, "GET", "/subjects") == (200, "<html>not a registry</html>")
        proxy.read_only()
        assert ask(proxy.url, "GET", "/subjects")[0] == 200
        assert register(proxy.url, subject, avro("R", "x"))[1]["error_code"] == 42205
        proxy.lose_answers()
        with pytest.raises(OSError, match=r"closed|reset"):
            register(proxy.url, subject, avro("R", "x"))
        proxy.down()
        with pytest.raises(OSError, match="refused"):
            ask(proxy.url, "GET", "/subjects")
        proxy.up()
        proxy.heal()
        assert ask(proxy.url, "GET", f"/subjects/{quote(subject, safe='')}/versions") == (200, [1])


def test_clusters_with_registries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One beside each cluster, named in the file for their flows; they end with the clusters, their schemas stay."""
    kept = [maven.ensure_jars(), ensure_archive(APICURIO)]
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path))
    for directory in kept:
        shutil.copytree(directory, cache_dir() / directory.name, copy_function=os.link)
    script = "from mirror_ray.lab.devcluster import run_clusters; run_clusters(registry=True)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().split() for _ in range(5)]
            assert [words[0] for words in lines] == ["A", "B", "A", "B", "flows"]
            config = (tmp_path / "clusters" / "mm2.properties").read_text()
            for alias, url, *_ in lines[2:4]:
                assert f"{alias}.schema.registry.url = {url}\n" in config
                assert register(url, "s", avro(alias, "x"))[0] == 200
            stop_clusters()
            assert process.wait(5) == 0
            with pytest.raises(OSError, match="refused"):
                ask(lines[2][1], "GET", "/subjects")
        finally:
            process.terminate()
    with ApicurioRegistry(data_dir=tmp_path / "clusters" / "A-registry") as again:
        assert ask(again.url, "GET", "/subjects") == (200, ["s"])
