"""What no other user of the machine may look into, write to, or have made for us beforehand."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror_ray import own_ray
from mirror_ray.cli.app import app
from mirror_ray.jars.maven import cache_dir
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.own_ray import OwnRay
from mirror_ray.private import make_secret, private_directory, read_private, write_private
from tests.support.stranger import STRANGER, needs_a_second_user

OWN = OwnRay(name="east", address="127.0.0.1:5000", processes=((1, 2.0),), session_dir="s", detached=True)


def mode(path: Path) -> int:
    """Its permissions."""
    return path.stat().st_mode & 0o7777


@pytest.fixture
def everybody() -> Iterator[None]:
    """Files are made for all to read and write unless somebody says otherwise."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def stranger(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """When called: what was ours is another user's from then on."""
    return lambda: monkeypatch.setattr("os.geteuid", lambda: 12345)


def test_a_private_directory_is_ours_alone(tmp_path: Path, everybody: None) -> None:
    """Made so; closed where it was open."""
    path = private_directory(tmp_path / "a" / "b")
    assert mode(path) == 0o700
    path.chmod(0o777)
    assert mode(private_directory(path)) == 0o700


def test_what_others_have_made_is_refused(tmp_path: Path, stranger: Callable[[], None]) -> None:
    """A link as well, wherever it leads."""
    mine = private_directory(tmp_path / "mine")
    (tmp_path / "link").symlink_to(mine)
    (tmp_path / "file").touch()
    for odd in ("link", "file"):
        with pytest.raises(ConfigError, match=f"{odd} is no directory: remove it"):
            private_directory(tmp_path / odd)
    with pytest.raises(MirrorError, match="can't be written: File exists"):
        private_directory(tmp_path / "file" / "below")
    stranger()
    with pytest.raises(ConfigError, match=r"mine belongs to user .*, not to user 12345, who runs this: remove it"):
        private_directory(mine)


def test_private_files(tmp_path: Path, everybody: None, stranger: Callable[[], None]) -> None:
    """Whole or not at all; nothing that others have put there is read or waited for."""
    path = tmp_path / "file.json"
    assert read_private(path) is None
    write_private(path, "one")
    write_private(path, "two")
    assert (read_private(path), mode(path), list(tmp_path.iterdir())) == ("two", 0o600, [path])
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(path)
    for odd in ("pipe", "link", "."):
        with pytest.raises(ConfigError):
            read_private(tmp_path / odd)
    stranger()
    with pytest.raises(ConfigError, match="belongs to"):
        read_private(path)


def test_a_secret_is_made_or_closed(tmp_path: Path, everybody: None, stranger: Callable[[], None]) -> None:
    """One that is there stays, through a link too; another user's may be known to him."""
    path = tmp_path / ".ray" / "auth_token"
    assert not make_secret(path, "secret")
    assert not make_secret(path, "another")
    assert (path.read_text(), mode(path), mode(path.parent)) == ("secret", 0o600, 0o700)
    path.chmod(0o644)
    (tmp_path / "link").symlink_to(path)
    assert make_secret(tmp_path / "link", "another")
    assert (path.read_text(), mode(path)) == ("secret", 0o600)
    assert list(path.parent.iterdir()) == [path]
    stranger()
    if os.getuid() != 0:  # root's is as good as ours
        with pytest.raises(ConfigError, match="belongs to"):
            make_secret(path, "another")
    else:
        path.chmod(0o644)
        with pytest.raises(ConfigError, match="everybody may read it"):
            make_secret(path, "another")
        os.chown(path, 54321, -1)
        with pytest.raises(ConfigError, match="belongs to user 54321"):
            make_secret(path, "another")


def test_the_sessions_of_ray_are_where_nobody_else_can_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself opens its own directory to all. A name that another user has taken beforehand is refused."""
    made: list[Path] = []

    def make(path: Path) -> Path:
        made.append(path)
        return path

    monkeypatch.setattr(own_ray, "private_directory", make)
    below = f"mirror-ray-{os.getuid()}"
    for said, taken in (("/short", "/short"), ("/" + "x" * 40, "/tmp")):  # noqa: S108 - compared, not written to
        monkeypatch.setattr("tempfile.tempdir", said)
        made.clear()
        assert own_ray.temporary_directory() == f"{taken}/{below}/ray"
        assert made == [Path(taken) / below, Path(taken) / below / "ray"]
    socket = f"{own_ray.temporary_directory()}/session_2026-11-24_20-26-00_123456_4194304/sockets/plasma_store"
    assert len(socket) < 103


def test_the_token_of_ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours to make, where it is needed and not said."""
    for variable in ("RAY_AUTH_TOKEN", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    own_ray.protect_token()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    # So that it is taken back at the end.
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "t" / "token"))
    assert not own_ray.protect_token()
    assert (mode(tmp_path / "t" / "token"), len((tmp_path / "t" / "token").read_text())) == (0o600, 64)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "said")
    (tmp_path / "t" / "token").chmod(0o644)
    assert not own_ray.protect_token()


def test_what_is_remembered_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It names processes to end."""
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path / "cache"))
    own_ray.remember(OWN)
    systems = tmp_path / "cache" / "systems"
    assert (mode(systems), mode(systems / "east.json")) == (0o700, 0o600)
    assert own_ray.find("east") is None  # process 1 began at another time
    for odd in ('{"processes": [["one", "two"]]}', "[]", "[" * 100_000, "\0", "null", '{"processes": 7}'):
        (systems / "west.json").write_text(odd)
        assert own_ray.find("west") is None


@pytest.mark.parametrize("command", ["status", "down", "events"])
def test_a_cache_directory_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A sentence that names it, whatever command looks there."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("MIRROR_RAY_CACHE", "/etc/passwd")
    result = CliRunner().invoke(app, [command])
    assert (result.exit_code, result.stderr) == (
        2,
        "error: /etc/passwd/systems/mirror.json can't be read: Not a directory\n",
    )
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(tmp_path))
    (tmp_path / "systems" / "mirror.json").mkdir(parents=True)
    result = CliRunner().invoke(app, [command])
    assert (result.exit_code, result.stderr) == (2, f"error: {tmp_path}/systems/mirror.json is no file: remove it\n")
    assert own_ray.names() == []


def test_without_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to set is said."""
    for variable in ("MIRROR_RAY_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(variable, raising=False)

    def nobody(_: int) -> None:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    with pytest.raises(ConfigError, match="no home directory: set HOME, or MIRROR_RAY_CACHE"):
        cache_dir()
    monkeypatch.setenv("MIRROR_RAY_CACHE", "~nobody-of-that-name/cache")
    assert cache_dir().name == "cache"


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without a free byte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, umount = (shutil.which(each) or each for each in ("mount", "umount"))
    command = [mount, "-t", "tmpfs", "-o", "size=16k", "none", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here: not root, or not privileged")
    try:
        (disk / "systems").mkdir()
        with pytest.raises(OSError, match="No space"):
            (disk / "filler").write_bytes(bytes(1 << 20))
        yield disk
    finally:
        subprocess.run([umount, str(disk)], check=True)


def test_a_disk_that_is_full(full_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and the cause; nothing half is left."""
    monkeypatch.setenv("MIRROR_RAY_CACHE", str(full_disk))
    with pytest.raises(MirrorError, match=r"east\.json can't be written: No space left on device"):
        own_ray.remember(OWN)
    assert list((full_disk / "systems").iterdir()) == []
    with pytest.raises(MirrorError, match="token can't be written: No space left on device"):
        make_secret(full_disk / "token", "secret")
    command = f"exec {sys.executable} -m mirror_ray version >{full_disk}/out"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "error: the output can't be written: No space left on device\n")


@needs_a_second_user
def test_a_directory_that_another_user_has_made_beforehand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where everybody may make some, as in /tmp: Ray's sessions do not go there, nor what is remembered."""
    with tempfile.TemporaryDirectory(dir="/") as everybodys:
        Path(everybodys).chmod(0o1777)
        monkeypatch.setattr("tempfile.tempdir", everybodys)
        monkeypatch.setenv("MIRROR_RAY_CACHE", everybodys)
        planted = [f"{everybodys}/mirror-ray-0", f"{everybodys}/systems"]
        subprocess.run(["/bin/mkdir", *planted], check=True, user=STRANGER, group=STRANGER, extra_groups=[])
        for refuses in (own_ray.temporary_directory, own_ray.prepare_to_remember, lambda: own_ray.remember(OWN)):
            with pytest.raises(ConfigError, match=r"belongs to user .*: remove it"):
                refuses()
        (Path(everybodys) / "systems" / "east.json").write_text("{}")
        os.chown(f"{everybodys}/systems/east.json", STRANGER, -1)
        with pytest.raises(ConfigError, match="belongs to"):
            own_ray.find("east")
        for path in planted:
            moved = ["/bin/mv", f"{private_directory(Path(everybodys) / 'mine')}", path]
            assert subprocess.run(moved, check=False, capture_output=True, user=STRANGER).returncode != 0
