"""What becomes a pod's sandbox, a container's first process, or a command in a container.

The kubelet's stand-in starts it (``python -I pod_init.py MODE SPEC.json``); it knows the standard library alone. When
whoever started it dies, its processes end, and with them the pod's namespaces, mounts and network.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

Spec = dict[str, Any]

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWPID, _CLONE_NEWNET = 0x20000000, 0x40000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MNT_DETACH = 2
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_READ_BYTES = 32 << 10
#: As containers' runtimes have it: what KubeRay starts asks for 65536.
_OPEN_FILES = 1 << 20
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
_MASKED = ("/proc/kcore", "/proc/keys", "/proc/timer_list")

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}{arguments}: {os.strerror(error)}")


def _mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    _call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


def _bind(source: str, target: str, *, read_only: bool = False) -> None:
    _mount(source, target, flags=_MS_BIND | _MS_REC)
    if read_only:
        _mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _enter(pid: int, kinds: tuple[str, ...]) -> None:
    """Join namespaces of a process; opened before any is entered: ``/proc`` may be another then."""
    opened = [os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in kinds]
    for descriptor in opened:
        _call("setns", descriptor, 0)
        os.close(descriptor)


def _end_with_parent() -> None:
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def sandbox(spec: Spec) -> NoReturn:
    """Hold a pod's network, name, IPC and volumes in memory, until it is killed."""
    _end_with_parent()
    _call("unshare", _CLONE_NEWNET | _CLONE_NEWUTS | _CLONE_NEWIPC | _CLONE_NEWNS)
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    _call("sethostname", spec["hostname"].encode(), len(spec["hostname"].encode()))
    for volume in spec["memory"]:
        _mount("tmpfs", volume["path"], "tmpfs", _MS_NOSUID | _MS_NODEV, volume["options"])
    _say({"pid": os.getpid()})
    os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606, S607 - it waits


def container(spec: Spec) -> NoReturn:
    """Run a container's command as the first process of its own namespaces, within those of its pod."""
    _end_with_parent()
    _enter(spec["sandbox_pid"], ("ipc", "uts", "net", "mnt"))
    _call("unshare", _CLONE_NEWNS | _CLONE_NEWPID)
    _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)

    def prepare() -> None:
        log = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        _join_cgroups(spec)
        _enter_root(spec)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)

    _run(spec, prepare)


def command(spec: Spec) -> NoReturn:
    """Run a command in a container that runs, with our own standard input and outputs."""
    _end_with_parent()
    _join_cgroups(spec)
    _enter(spec["pid"], ("ipc", "uts", "net", "pid", "mnt"))
    _run(spec, lambda: None)


def dial(spec: Spec) -> NoReturn:
    """Connect standard input and output with a port within a pod's network."""
    _end_with_parent()
    _enter(spec["pid"], ("net",))
    try:
        connection = socket.create_connection(("127.0.0.1", spec["port"]))
    except OSError as error:
        sys.exit(f"port {spec['port']}: {error}")

    def send() -> None:
        while data := os.read(0, _READ_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)

    threading.Thread(target=send, daemon=True).start()
    while data := connection.recv(_READ_BYTES):
        os.write(1, data)
    os._exit(0)


def _run(spec: Spec, prepare: Callable[[], None]) -> NoReturn:
    """Fork, become the command in the child, and end as it ends. What goes wrong before it begins is said."""
    failure_read, failure_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(failure_read)
            os.set_inheritable(failure_write, False)
            prepare()
            _become(spec)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the kubelet tells it
            os.write(failure_write, f"{type(error).__name__}: {error}".encode())
        os._exit(128)
    os.close(failure_write)
    with os.fdopen(failure_read) as stream:
        failure = stream.read()
    if spec.get("tells"):
        _say({"error": failure} if failure else {"pid": pid})
    elif failure:
        sys.stderr.write(f"{failure}\n")
    for terminating in (signal.SIGTERM, signal.SIGINT):
        signal.signal(terminating, signal.SIG_IGN)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os._exit(status if status >= 0 else 128 - status)


def _enter_root(spec: Spec) -> None:
    root = spec["root"]["merged"]
    layers = f"lowerdir={spec['root']['lower']},upperdir={spec['root']['upper']},workdir={spec['root']['work']}"
    _mount("overlay", root, "overlay", options=layers)
    _make_system(root, spec)
    for mount in spec["mounts"]:
        target = _inside(root, mount["target"])
        _make_part(Path(mount["source"]))
        _make_point(target, like=mount["source"])
        _bind(mount["source"], str(target), read_only=mount["read_only"])
    if spec["root"]["read_only"]:
        _mount("none", root, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    os.chdir(root)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _MNT_DETACH)
    os.chdir("/")


def _make_system(root: str, spec: Spec) -> None:
    """Mount ``/proc``, ``/sys`` and ``/dev`` as container runtimes do."""
    for directory in ("proc", "sys", "dev"):
        Path(root, directory).mkdir(exist_ok=True)
    _mount("proc", f"{root}/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path in _READ_ONLY:
        if Path(root + path).exists():
            _bind(root + path, root + path, read_only=True)
    _mount("sysfs", f"{root}/sys", "sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC | _MS_RDONLY)
    if spec["cgroups"]:
        _mount("tmpfs", f"{root}/sys/fs/cgroup", "tmpfs", options="mode=755")
        for cgroup in spec["cgroups"]:
            point = Path(root, "sys/fs/cgroup", cgroup["controller"])
            point.mkdir()
            _bind(cgroup["path"], str(point), read_only=True)
    dev = f"{root}/dev"
    _mount("tmpfs", dev, "tmpfs", _MS_NOSUID, "mode=755,size=65536k")
    for device in _DEVICES:
        Path(dev, device).touch()
        _bind(f"/dev/{device}", f"{dev}/{device}")
    for name, target in {
        "fd": "/proc/self/fd",
        "stdin": "fd/0",
        "stdout": "fd/1",
        "stderr": "fd/2",
        "ptmx": "pts/ptmx",
    }.items():
        Path(dev, name).symlink_to(target)
    for name in ("pts", "shm", "mqueue"):
        Path(dev, name).mkdir()
    _mount("devpts", f"{dev}/pts", "devpts", _MS_NOSUID | _MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5")
    _mount("mqueue", f"{dev}/mqueue", "mqueue", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path in _MASKED:
        if Path(root + path).exists():
            _bind("/dev/null", root + path)


def _inside(root: str, path: str) -> Path:
    """A path of the container, whose symbolic links are those of the container."""
    inside = Path(root)
    for part in Path(path).parts[1:]:
        step = inside / part
        if step.is_symlink():
            target = step.readlink()
            base = root if target.is_absolute() else str(inside)
            step = Path(base) / str(target).lstrip("/")
        inside = step
    return inside


def _make_part(source: Path) -> None:
    """Make a ``subPath`` that is not there yet; it belongs to whom its volume belongs to."""
    if not source.exists():
        _make_part(source.parent)
        volume = source.parent.stat()
        source.mkdir()
        os.chown(source, volume.st_uid, volume.st_gid)
        source.chmod(volume.st_mode & 0o7777)


def _make_point(target: Path, *, like: str) -> None:
    if Path(like).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _join_cgroups(spec: Spec) -> None:
    for cgroup in spec["cgroups"]:
        Path(cgroup["path"], "cgroup.procs").write_text("0")


def _become(spec: Spec) -> NoReturn:
    """Give up what the container may not have, and become its command."""
    os.umask(0o022)
    os.setsid()
    # Where this machine does not let us have more, KubeRay's command says so and goes on.
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, _OPEN_FILES))
    for capability in spec["dropped_capabilities"]:
        # The kernel may know fewer.
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups(spec["groups"])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    if spec["no_new_privileges"]:
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # A change of the user has cleared it.
    _end_with_parent()
    Path(spec["directory"]).mkdir(parents=True, exist_ok=True)
    os.chdir(spec["directory"])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])  # noqa: S606 - the container's own command


def _say(told: Spec) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[2]).read_text())
    {"sandbox": sandbox, "container": container, "command": command, "dial": dial}[sys.argv[1]](given)
