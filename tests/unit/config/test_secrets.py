"""Secrets are kept by reference, shown to nobody, and looked up anew each time."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import yaml

from mirror_ray.config.load import load_settings
from mirror_ray.config.loaded import LoadedConfig
from mirror_ray.config.native import native_form
from mirror_ray.config.providers import STANDARD_PROVIDERS, ProviderSpec
from mirror_ray.config.secrets import STORED, Secret
from mirror_ray.config.settings import MirrorSettings
from mirror_ray.model.errors import ConfigError

_HIDDEN = "SeCrEtPaSs-zq9-zq9"
_JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="%s";'
_MM2 = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
config.providers = kept
config.providers.kept.class = org.apache.kafka.common.config.provider.FileConfigProvider
A.security.protocol = SASL_SSL
A.sasl.mechanism = SCRAM-SHA-512
"""
_NATIVE = """
version: 1
clusters:
  A:
    bootstrap_servers: a:1
    security: {protocol: SASL_SSL, sasl: {mechanism: PLAIN, username: me, password: "%s"}}
  B: {bootstrap_servers: "b:1"}
flows: {A->B: {}}
"""


def _load(directory: Path, text: str, suffix: str) -> LoadedConfig:
    path = directory / f"config{suffix}"
    path.write_text(text)
    return load_settings(path)


def _password(loaded: LoadedConfig) -> Secret:
    sasl = loaded.settings.clusters["A"].security.sasl
    assert sasl is not None
    assert sasl.password is not None
    return sasl.password


def _file(directory: Path, **entries: str) -> Path:
    path = directory / "secrets.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in entries.items()))
    return path


def test_a_reference_of_mm2_is_kept_and_followed(tmp_path: Path) -> None:
    """In the option of a JAAS line; what the file holds later is what it is then. Nothing of it is in the settings."""
    secrets = _file(tmp_path, pw=_HIDDEN)
    loaded = _load(tmp_path, f"{_MM2}A.sasl.jaas.config = {_JAAS % f'${{kept:{secrets}:pw}}'}\n", ".properties")
    password = _password(loaded)
    assert password.reveal() == _HIDDEN
    for shown in (repr(loaded), str(password), pickle.dumps(loaded.settings), loaded.settings.model_dump_json()):
        assert _HIDDEN.encode() not in (shown if isinstance(shown, bytes) else shown.encode())
    assert not [note for note in loaded.notes if note.kind == "secret"]
    _file(tmp_path, pw="another")
    assert password.reveal() == "another"


def test_a_whole_jaas_line_may_be_behind_a_reference(tmp_path: Path) -> None:
    """The option is picked each time; a line that lost it is told by the reference, and not shown."""
    secrets = _file(tmp_path, line=_JAAS % _HIDDEN)
    password = _password(_load(tmp_path, f"{_MM2}A.sasl.jaas.config = ${{kept:{secrets}:line}}\n", ".properties"))
    assert password.reveal() == _HIDDEN
    assert password.native is None
    _file(tmp_path, line=f"{_HIDDEN} and nothing else")
    with pytest.raises(LookupError, match=r"secrets\.properties:line} can't be used") as refused:
        password.reveal()
    assert _HIDDEN not in str(refused.value)


def test_a_literal_beside_a_reference_is_literal(tmp_path: Path) -> None:
    """A line whose user is looked up and whose password is not."""
    secrets = _file(tmp_path, me="me")
    line = (_JAAS % _HIDDEN).replace('"me"', f'"${{kept:{secrets}:me}}"')
    loaded = _load(tmp_path, f"{_MM2}A.sasl.jaas.config = {line}\n", ".properties")
    assert _password(loaded) == Secret(_HIDDEN)
    assert [note.key for note in loaded.notes if note.kind == "secret"] == ["A.sasl.jaas.config"]


def test_literal_secrets_are_told_of(tmp_path: Path) -> None:
    """By their keys, in both forms of file; what they are is not said."""
    text = f"{_MM2}A.sasl.jaas.config = {_JAAS % _HIDDEN}\nssl.key.password = {_HIDDEN}\ngateway.token = {_HIDDEN}\n"
    loaded = _load(tmp_path, text, ".properties")
    notes = [note for note in loaded.notes if note.kind == "secret"]
    assert sorted(note.key for note in notes) == ["A.sasl.jaas.config", "gateway.token", "ssl.key.password"]
    assert "clear text in this file and in Ray's storage" in notes[0].text
    assert _HIDDEN not in repr(loaded)
    native = _load(tmp_path, f"{_NATIVE % _HIDDEN}gateway: {{token: {_HIDDEN}}}\n", ".yaml")
    assert [note.key for note in native.notes] == ["clusters.A.security.sasl.password", "gateway.token"]


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_the_end_of_a_file_is_none_of_a_secret(tmp_path: Path, ending: str) -> None:
    """One newline, as mounted secrets often have; further ones are."""
    (tmp_path / "pw").write_bytes(f"x {ending}".encode())
    assert _password(_load(tmp_path, _NATIVE % f"${{dir:{tmp_path}:pw}}", ".yaml")).reveal() == "x "


def test_relative_paths_hold_wherever_it_is_revealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Kafka, from the working directory of the process that loads the file."""
    _file(tmp_path, pw=_HIDDEN)
    monkeypatch.chdir(tmp_path)
    password = _password(_load(tmp_path, _NATIVE % "${file:secrets.properties:pw}", ".yaml"))
    monkeypatch.chdir("/")
    assert password.reveal() == _HIDDEN


def test_what_leads_to_nothing_is_named_where_it_is_revealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable was there when the file was loaded; where the system runs it is not."""
    monkeypatch.setenv("MIRROR_TEST_PW", _HIDDEN)
    password = _password(_load(tmp_path, _NATIVE % "${env:MIRROR_TEST_PW}", ".yaml"))
    monkeypatch.delenv("MIRROR_TEST_PW")
    with pytest.raises(LookupError, match=r"^\${env:MIRROR_TEST_PW} can't be resolved on this machine: the environ"):
        password.reveal()
    with pytest.raises(ConfigError, match="MIRROR_TEST_PW is not set"):
        _load(tmp_path, _NATIVE % "${env:MIRROR_TEST_PW}", ".yaml")


def test_what_may_be_read_stays_bounded(tmp_path: Path) -> None:
    """The bounds that a provider was declared with go along with the secret, wherever it goes."""
    elsewhere = _file(tmp_path, pw=_HIDDEN)
    bounded = {"kept": ProviderSpec(kind="file", allowed_paths=(str(tmp_path / "in"),))}
    secret = pickle.loads(pickle.dumps(Secret(f"${{kept:{elsewhere}:pw}}", bounded)))  # noqa: S301 - its own
    with pytest.raises(LookupError, match=r"allowed\.paths"):
        secret.reveal()


def test_secrets_are_equal_by_how_they_are_written() -> None:
    """A literal text that looks like a reference is none."""
    there = Secret("${env:X}", STANDARD_PROVIDERS)
    assert there == Secret("${env:X}", STANDARD_PROVIDERS)
    assert {there} == {Secret("${env:X}", STANDARD_PROVIDERS)}
    assert there != Secret("${env:X}")
    assert Secret("${env:X}").reveal() == "${env:X}"
    assert repr(Secret("${env:X}")) == "(secret)"


def test_secrets_are_written_as_json_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """With ``STORED`` they come back the same; those in options of transforms, too."""
    (tmp_path / "salt").write_text("NaCl\n")
    steps = f"""
defaults:
  transforms:
    steps:
      - type: mirror_ray.transforms:InsertHeader
        options: {{name: h, value: "${{dir:{tmp_path}:salt}}"}}
"""
    settings = _load(tmp_path, _NATIVE % _HIDDEN + steps, ".yaml").settings
    assert settings.flows[0].transforms.steps[0].arguments == {"name": "h", "value": "NaCl"}
    kept = settings.model_dump_json(context=STORED)
    assert "NaCl" not in kept
    assert MirrorSettings.model_validate_json(kept, context=STORED) == settings
    shown = settings.model_dump_json()
    assert _HIDDEN not in shown
    assert f"${{dir:{tmp_path}:salt}}" in shown
    with pytest.raises(ValueError, match="should be a valid string"):
        MirrorSettings.model_validate_json(kept)


def test_references_stay_references_in_the_native_form(tmp_path: Path) -> None:
    """Under the names that it has for config providers; what it can't say becomes a variable to be set."""
    secrets = _file(tmp_path, pw=_HIDDEN, line=_JAAS % _HIDDEN)
    for value, written in (
        (_JAAS % f"${{kept:{secrets}:pw}}", f"${{file:{secrets}:pw}}"),
        (f"${{kept:{secrets}:line}}", "${env:MIRROR_A_SECURITY_SASL_PASSWORD}"),
        (_JAAS % _HIDDEN, "${env:MIRROR_A_SECURITY_SASL_PASSWORD}"),
    ):
        text = f"{_MM2}A.sasl.jaas.config = {value}\n"
        document = native_form(_load(tmp_path, text, ".properties").settings)
        assert document["clusters"]["A"]["security"]["sasl"]["password"] == written
        assert _HIDDEN not in yaml.safe_dump(document)
