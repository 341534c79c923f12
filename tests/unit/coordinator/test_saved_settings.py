"""What a coordinator leaves to the one that follows it: values alone, and no secret that has a reference."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.config.settings import ClusterSettings, MirrorSettings
from mirror_ray.coordinator.saved_settings import SavedSettings, fingerprint, read_kept
from mirror_ray.model.errors import ConfigError
from mirror_ray.model.starter import Starter
from tests.unit.coordinator.fakes import World, eventually, flow, settings

_HIDDEN = "SeCrEtPaSs-zq9"
_FILE = """
version: 1
clusters:
  A:
    bootstrap_servers: A:9092
    security: {{protocol: SASL_PLAINTEXT, sasl: {{mechanism: PLAIN, username: me, password: "{password}"}}}}
  B: {{bootstrap_servers: "B:9092"}}
flows: {{A->B: {{topics: {{start: latest, map: {{a: b}}}}, transforms: {{steps: [
  {{type: "mirror_ray.transforms:Route", options: {{header: h, to: {{x: routed}}}}}}
]}}}}}}
"""


class _Harmful:
    ran = False

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return exec, (f"import sys; sys.modules[{__name__!r}]._Harmful.ran = True",)


def _loaded(directory: Path, password: str) -> MirrorSettings:
    path = directory / "config.yaml"
    path.write_text(_FILE.format(password=password))
    return load_settings(path).settings


async def test_a_secret_is_kept_by_its_reference(world: World, tmp_path: Path) -> None:
    """And the next coordinator runs by the same settings: routes, names and all."""
    (tmp_path / "pw").write_text(_HIDDEN)
    configured = _loaded(tmp_path, f"${{dir:{tmp_path}:pw}}")
    first = world.coordinator()
    starter = Starter(by="ann@desk", pid=7, command="up", foreground=False)
    await first.apply(configured, starter=starter)
    assert world.memory.blob is not None
    assert _HIDDEN.encode() not in world.memory.blob
    await eventually(lambda: b"cluster-A" in (world.memory.blob or b""))
    kept = read_kept(world.memory.blob)
    assert isinstance(kept, SavedSettings)
    assert kept.settings == configured
    second = await world.another(first)
    assert (await second.configuration(), await second.starter()) == (configured, starter)


async def test_what_an_older_version_kept_is_reported_and_not_run(world: World) -> None:
    """It was a pickle, which can run anything; `up` begins from its file, as the sentence says."""
    world.memory.blob = pickle.dumps(_Harmful())
    coordinator = await world.another()
    assert not _Harmful.ran
    (event,) = await coordinator.events()
    assert event.level == "error"
    assert "run `mirror-ray up` with the configuration again" in event.text
    await coordinator.apply(settings())
    assert isinstance(read_kept(await world.memory.load() or b""), SavedSettings)


@pytest.mark.parametrize("blob", [b"", b"\x00", b"{}", b"[1]", b'{"version": 2}', b'{"version":1,"settings":{}}'])
def test_anything_else_is_a_sentence(blob: bytes) -> None:
    """Whatever stands in the store."""
    found = read_kept(blob)
    assert isinstance(found, str)
    assert "can't be read" in found


async def test_what_does_not_fit_is_named_without_its_value(world: World, tmp_path: Path) -> None:
    """A literal secret is in there, and in no sentence about it."""
    await world.running(_loaded(tmp_path, _HIDDEN))
    document = json.loads(world.memory.blob or b"")
    document["settings"]["clusters"]["A"]["security"]["sasl"]["password"] = _HIDDEN + "-more"
    document["settings"]["clusters"]["A"]["security"]["protocol"] = _HIDDEN
    found = read_kept(json.dumps(document).encode())
    assert isinstance(found, str)
    assert "settings.clusters.A.security.protocol" in found
    assert _HIDDEN not in found


async def test_nothing_is_started_where_a_secret_leads_to_nothing(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be resolved where the file was loaded, and can't be where the coordinator is."""
    monkeypatch.setenv("MIRROR_TEST_PW", _HIDDEN)
    configured = _loaded(tmp_path, "${env:MIRROR_TEST_PW}")
    monkeypatch.delenv("MIRROR_TEST_PW")
    coordinator = world.coordinator()
    with pytest.raises(ConfigError, match=r"clusters\.A\.security\.sasl\.password: \${env:MIRROR_TEST_PW} can't be"):
        await coordinator.apply(configured)
    assert world.memory.blob is None
    await coordinator.apply(settings(flow()))
    with pytest.raises(ConfigError, match="nothing has been changed"):
        await coordinator.apply(configured)


def test_fingerprint_distinguishes_settings_and_nothing_else() -> None:
    """It is the same behind a process boundary, and another one for another password."""
    security = {"sasl": {"mechanism": "PLAIN", "username": "alice"}}
    cluster = {"alias": "A", "bootstrap_servers": ("a:9092",)}
    alice, other = (
        settings().model_copy(
            update={"clusters": {"A": ClusterSettings.model_validate({**cluster, "security": given})}}
        )
        for given in ({"sasl": {**security["sasl"], "password": password}} for password in ("one", "two"))
    )
    assert fingerprint(pickle.loads(pickle.dumps(alice))) == fingerprint(alice)  # noqa: S301 - pickled by the test itself
    assert fingerprint(other) != fingerprint(alice)
