"""stdout and stderr as cron, daemons, full disks and C locales give them; and Ctrl-C: a line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from mirror_ray.cli import acting
from mirror_ray.cli.app import app
from mirror_ray.cli.streams import OutputStream
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import writing
from tests.unit.cli.fakes import CONFIG, FakeCoordinator

Run = Callable[..., Any]

_C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class _Full(io.RawIOBase):
    """A disk that is full, or a pipe that nobody reads."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.file = Path(os.devnull).open("w")  # noqa: SIM115

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.file.fileno()

    def write(self, data: Any) -> int:
        raise OSError(self.code, os.strerror(self.code))


def _stream(code: int, *, is_data: bool) -> OutputStream:
    return OutputStream(io.TextIOWrapper(io.BufferedWriter(_Full(code)), encoding="ascii"), is_data=is_data)


def test_a_full_disk_is_said_of_data_and_talk_is_dropped() -> None:
    """What keeps a system going must not end it for want of a log."""
    data = _stream(errno.ENOSPC, is_data=True)
    data.write("rows\n")
    with pytest.raises(MirrorError, match="the output can't be written: No space left"):
        data.flush()
    _stream(errno.ENOSPC, is_data=False).write("talk\n")


@pytest.mark.parametrize("is_data", [True, False])
def test_who_reads_no_more_ends_the_command_as_sigpipe_does(is_data: bool) -> None:
    """Quietly."""
    stream = _stream(errno.EPIPE, is_data=is_data)
    with pytest.raises(SystemExit) as ended:  # noqa: PT012 - talk goes out by lines
        stream.write("rows\n")
        stream.flush()
    assert ended.value.code == 141


def test_what_the_encoding_lacks_is_shown() -> None:
    """A lone surrogate, which is how Python holds a byte of a file's name that is no UTF-8, as well."""
    under = io.BytesIO()
    stream = OutputStream(io.TextIOWrapper(under, encoding="ascii"), is_data=True)
    stream.write("ä … \udcff")
    stream.flush()
    assert under.getvalue() == b"\\xe4 \\u2026 \\udcff"


def _program(
    *arguments: str, shell: str = "", env: Mapping[str, str] | None = None, module: str = "mirror_ray"
) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, with redirections of the shell's."""
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", sys.executable, "-m", module, *arguments]
    known = {key: value for key, value in os.environ.items() if key not in {"PYTHONIOENCODING", "LC_ALL", "LANG"}}
    return subprocess.run(command, capture_output=True, check=False, timeout=60, env={**known, **dict(env or {})})


@pytest.mark.parametrize(
    ("arguments", "shell", "exit_code", "says"),
    [
        (("version",), ">&-", 0, ""),
        (("status", "--name", "x\x1b]0;t\x07"), "2>&- >&- <&-", 1, ""),
        (("version",), ">/dev/full", 4, "error: the output can't be written: No space left on device"),
        (("--help",), ">/dev/full", 4, "error: the output can't be written: No space left on device"),
        (("validate", "nowhere"), "2>/dev/full", 2, ""),
        (("--help",), "| true", 0, ""),
        (("validate", ""), "", 2, "the name of the file is empty"),
    ],
)
def test_streams_of_cron_and_of_full_disks(
    arguments: tuple[str, ...], shell: str, exit_code: int, says: str, tmp_path: Path
) -> None:
    """One line and an exit code."""
    done = _program(*arguments, shell=shell, env={"MIRROR_RAY_CACHE": str(tmp_path), "COLUMNS": "200"})
    assert done.returncode == exit_code, done.stderr
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr + done.stdout
    assert b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("locale", [_C_LOCALE, {"PYTHONIOENCODING": "ascii"}])
def test_a_terminal_without_unicode(locale: dict[str, str], tmp_path: Path) -> None:
    """Names are shown by escapes, tables with ASCII."""
    config = tmp_path / os.fsdecode(b"caf\xc3\xa9-\xff.properties")
    config.write_text(CONFIG)
    done = _program("validate", str(config), env=locale)
    assert done.returncode == 0, done.stderr
    assert rb"\udcff.properties: valid" in done.stdout
    asked = _program("validate", "--help", env=locale)
    assert asked.returncode == 0
    assert asked.stdout.isascii()


@pytest.mark.parametrize("after_s", [0.15, 0.3, 0.45])
def test_ctrl_c_while_the_command_is_imported(after_s: float, tmp_path: Path) -> None:
    """No traceback, and the exit code that shells expect."""
    pipe = subprocess.PIPE
    # With all of its imports traced, the program is slow to start.
    command = [sys.executable, "-c", _SLOW_IMPORTS, "status", "--name", "nobody"]
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, env={**os.environ, "MIRROR_RAY_CACHE": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert b"Traceback" not in said


#: Every module takes a while from where `main` has begun.
_SLOW_IMPORTS = """
import importlib.machinery as machinery, sys, time
from mirror_ray.cli import main
load = machinery.SourceFileLoader.exec_module
def slowly(self, module):
    time.sleep(0.003)
    load(self, module)
machinery.SourceFileLoader.exec_module = slowly
print("begun", flush=True)
main()
"""


def test_ctrl_c_in_a_command(coordinator: FakeCoordinator, run: Run) -> None:
    """One line, 130."""
    coordinator.errors["status"] = KeyboardInterrupt()  # type: ignore[assignment]
    result = run("status")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_at_a_question_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """No is 1, Ctrl-C 130, the end of the input no."""
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    for answer, code in ((KeyboardInterrupt(), 130), (EOFError(), 1), ("n", 1)):

        def prompt(_: str, answer: Any = answer) -> str:
            if isinstance(answer, BaseException):
                raise answer
            return str(answer)

        monkeypatch.setattr("typer._click.termui.visible_prompt_func", prompt)
        with pytest.raises(typer.Exit) as ended:
            acting.confirm("Go on?", yes=False)
        assert ended.value.exit_code == code


def test_files_that_cannot_be_written_are_named(tmp_path: Path, run: Run) -> None:
    """Whatever the operating system says, with the file; without a traceback."""
    says = r"x/report\.md can't be written: No space left"
    with pytest.raises(MirrorError, match=says), writing(Path("x/report.md")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    @app.command("fails-so", hidden=True)
    def fails() -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/a/file")

    try:
        result = run("fails-so")
    finally:
        app.registered_commands.pop()
    assert (result.exit_code, result.stderr) == (4, "error: /a/file: Permission denied\n")
