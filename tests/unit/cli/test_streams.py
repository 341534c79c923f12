"""stdout and stderr as cron, daemons, full disks and C locales give them; and Ctrl-C: a line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from mirror_ray.cli import control
from mirror_ray.cli.app import app
from mirror_ray.cli.streams import OutputStream
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import writing
from tests.unit.cli.fakes import CONFIG, FakeCoordinator, Run

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


@pytest.mark.parametrize("module", ["mirror_ray.model.errors", "typer", "mirror_ray.cli.output"])
def test_ctrl_c_while_the_command_is_imported(module: str) -> None:
    """No traceback, and the exit code that shells expect."""
    command = [sys.executable, "-c", _INTERRUPTED_IMPORT, "status"]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, env={**os.environ, "IN": module})
    assert (done.returncode, done.stdout) == (130, b"")
    assert done.stderr in {b"", b"interrupted\n"}


#: As the program does it; Ctrl-C comes while a module is being loaded.
_INTERRUPTED_IMPORT = """
import importlib.machinery as machinery, os, signal, sys
sys.argv[0] = "/usr/bin/mirror-ray"
load = machinery.SourceFileLoader.exec_module
def interrupted(self, module):
    if module.__name__ == os.environ["IN"]:
        signal.raise_signal(signal.SIGINT)
    load(self, module)
machinery.SourceFileLoader.exec_module = interrupted
from mirror_ray.cli import main
main()
"""


def test_ctrl_c_in_a_command(coordinator: FakeCoordinator, run: Run) -> None:
    """130; `main` says the line."""
    coordinator.interrupted_in = "status"
    result = run("status")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


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
            control.confirm("Go on?", yes=False)
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
