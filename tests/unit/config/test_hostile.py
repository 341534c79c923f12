"""Files that are made to break the reader: each ends soon, with exit 2 and a sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror_ray.config.load import load_settings
from mirror_ray.model.errors import ConfigError
from tests.unit.config.conftest import NATIVE, Load, Problems

_NATIVE = f"{NATIVE}flows:\n  A->B: {{}}\n"
_PROVIDERS = "config.providers = file, dir\n" + "".join(
    f"config.providers.{name}.class = org.apache.kafka.common.config.provider.{kind}ConfigProvider\n"
    for name, kind in (("file", "File"), ("dir", "Directory"))
)
#: What a busy machine takes for what takes a few hundredths of a second by itself.
_MOST_S = 2.0


@pytest.fixture(autouse=True)
def soon() -> Iterator[None]:
    """The limit holds for each file."""
    begin = time.process_time()
    yield
    assert time.process_time() - begin < _MOST_S


@pytest.mark.parametrize("text", ["replicators: 1:30", "lease_ms: 2020-01-01"])
def test_what_looks_like_dates_and_times_is_no_number(problems: Problems, text: str) -> None:
    """YAML 1.1 reads 1:30 as 90."""
    assert "should be a valid integer" in problems(text, _NATIVE, ".yaml")[0]


def test_many_unknown_keys(problems: Problems) -> None:
    """A hundred are told; hints take time, and are not sought for the others."""
    found = problems("".join(f"A->B.k{number} = 1\n" for number in range(9_000)))
    assert len(found) == 101
    assert found[0].startswith("A->B.k0: unknown key")
    assert found[100].startswith("and ")
    found = problems("".join(f"k{number}: 1\n" for number in range(40_000)), _NATIVE, ".yaml")
    assert (len(found), found[100]) == (101, "and 39,900 more mistakes")


def test_too_much_of_everything(problems: Problems, tmp_path: Path) -> None:
    """Keys, bytes, clusters."""
    assert problems("".join(f"k{number}=1\n" for number in range(20_000)))[0].startswith("20,004 keys, at most 10,000")
    assert problems("", f"clusters = {','.join(f'c{number}' for number in range(1000))}") == [
        "clusters: 1,000 are listed, at most 50 are looked after by one system: run several"
    ]
    many = "".join(f"  c{number}: {{bootstrap_servers: 'a:1'}}\n" for number in range(1000))
    assert problems("", f"version: 1\nflows: {{}}\nclusters:\n{many}", ".yaml")[0].startswith("clusters: 1,000 are")
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * 10_000_000)
    with pytest.raises(ConfigError, match=r"large\.yaml is larger than 1,048,576 bytes"):
        load_settings(path)


@pytest.mark.parametrize("own", ["", "defaults: {provenance: {enabled: true}, %s}\n", "defaults: {%s}\n"])
def test_every_flow_between_ten_clusters(tmp_path: Path, own: str) -> None:
    """They form a million rings."""
    clusters = "".join(f"  c{number}: {{bootstrap_servers: 'a:1'}}\n" for number in range(10))
    flows = "".join(f"  c{one}->c{other}: {{}}\n" for one in range(10) for other in range(10) if one != other)
    identity = "policy: {class_name: org.apache.kafka.connect.mirror.IdentityReplicationPolicy}"
    path = tmp_path / "mesh.yaml"
    path.write_text(f"version: 1\nclusters:\n{clusters}flows:\n{flows}{own % identity if own else ''}")
    if not own:
        assert len(load_settings(path).settings.flows) == 90
        return
    with pytest.raises(ConfigError) as refused:
        load_settings(path)
    assert ("stand there twice" if "provenance" in own else "copy topics round and round") in str(refused.value)


@pytest.mark.parametrize("value", ["${" * 3000 + ":" * 3000, "${" * 100_000 + ":" * 100_000, "${a:" * 100_000 + "}"])
def test_references_are_read_in_one_pass(load: Load, problems: Problems, value: str) -> None:
    """What is no reference is itself."""
    if "}" in value:
        assert "a reference names the config provider 'a'" in problems(f"A.ssl.truststore.password = {value}")[0]
        return
    password = load(f"A.security.protocol=SSL\nA.ssl.truststore.password = {value}").settings.clusters["A"].security.ssl
    assert password.truststore_password is not None
    assert password.truststore_password.reveal() == value


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (r"${dir:/tmp\u0000:k}", "embedded null byte"),
        (r"${dir:/tmp:k\u0000}", "embedded null byte"),
        (r"${file:/tmp/\u0000:k}", "embedded null byte"),
        ("${file:/dev/zero:k}", "/dev/zero can't be read: it is not a regular file"),
        ("${file:/:k}", "/ can't be read: it is not a regular file"),
        ("${file:LOOP:k}", "can't be read: "),
        ("${dir:LOOP:k}", "can't be read: "),
        ("${file:LARGE:k}", "LARGE can't be read: it has more than 1,048,576 characters"),
    ],
)
def test_files_of_references(problems: Problems, tmp_path: Path, reference: str, says: str) -> None:
    """Those that can't be files are told as those that are not there, in both forms."""
    (tmp_path / "LOOP").symlink_to(tmp_path / "LOOP")
    (tmp_path / "LARGE").write_text("k=1\n" * 300_000)
    reference = reference.replace("LOOP", str(tmp_path / "LOOP")).replace("LARGE", str(tmp_path / "LARGE"))
    found = problems(f"{_PROVIDERS}A.ssl.truststore.password = {reference}")
    assert found[0].startswith("A.ssl.truststore.password: ")
    assert says in found[0]
    found = problems(f'cost: {{currency: "{reference}"}}', _NATIVE, ".yaml")
    assert found[0].startswith("cost.currency: ")
    assert says in found[0]


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a device without end, a loop of links, a name that can't be one."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, says in (
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path, "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (tmp_path / "loop", "can't be read: Too many levels of symbolic links"),
        (Path("a\0b"), "can't be read: "),
    ):
        with pytest.raises(ConfigError) as refused:
            load_settings(path)
        assert says in str(refused.value)
