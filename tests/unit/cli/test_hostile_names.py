"""Names and texts out of clusters: whoever may write there must not steer the terminal of who looks."""

from __future__ import annotations

import ast
import io
import json
import logging
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import mirror_ray.cli
from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.options import OutputFormat
from mirror_ray.cli.output import TerminalConsole, emit, out, say, table
from mirror_ray.cli.printable import PrintableFormatter, is_unsafe, one_line, printable
from tests.support.factories import system_status
from tests.unit.cli.fakes import EVENT, FLOW, GAP, GROUP, PARTITION, SCHEMA, TOPIC, FakeCoordinator, Run, stopped

#: A colour, the window's title, a bell, the direction of writing, a second line, a surrogate alone, C1's own escape.
HOSTILE = "esc\x1b[31mRED\x1b]0;pwned\x07\u202etxt\r\nnext\ud800\x9b2J\u2028[bold]b[/bold][/] :smile:"
SHOWN = r"esc\x1b[31mRED\x1b]0;pwned\x07\u202etxt\r\nnext\ud800\x9b2J\u2028[bold]b[/bold][/] :smile:"
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
LOOKS = ("status", "lag", "topics", "replicators", "events", "gaps", "groups", "groups --group {name}", "schemas")


def test_what_steers_a_terminal_is_shown() -> None:
    """All of C0, DEL, C1, what turns the direction of writing, what breaks lines, surrogates; nothing else."""
    for code in range(0x11000):
        character = chr(code)
        turns = unicodedata.bidirectional(character) in _TURNING or code in {0x61C, 0x200E, 0x200F}
        steers = turns or unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}
        assert (one_line(character) != character) == steers, hex(code)
        assert is_unsafe(character) == (steers and character not in "\t\n")
    assert one_line(HOSTILE) == SHOWN
    assert one_line(SHOWN) == SHOWN
    assert printable("two\n\tlines \x1b") == "two\n\tlines \\x1b"


@pytest.fixture
def hostile(coordinator: FakeCoordinator) -> FakeCoordinator:
    """A system in which everything that others name is hostile."""
    flow = replace(FLOW, why=HOSTILE)
    coordinator.status = system_status(flow, problems=(replace(stopped(HOSTILE), subject=HOSTILE),))
    coordinator.partitions = (replace(PARTITION, topic=HOSTILE, reason=HOSTILE),)
    coordinator.topics = (replace(TOPIC, topic=HOSTILE, remote_topic=HOSTILE, reason=HOSTILE),)
    coordinator.events = (replace(EVENT, subject=HOSTILE, text=HOSTILE),)
    coordinator.gaps = (replace(GAP, topic=HOSTILE, text=HOSTILE),)
    partitions = tuple(replace(partition, topic=HOSTILE, reason=HOSTILE) for partition in GROUP.partitions)
    coordinator.groups = (replace(GROUP, group=HOSTILE, reason=HOSTILE, partitions=partitions),)
    coordinator.schemas = (replace(SCHEMA, subject=HOSTILE, kind=HOSTILE, target_subject=HOSTILE, problem=HOSTILE),)
    return coordinator


@pytest.mark.parametrize("command", LOOKS)
@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_no_command_sends_them(hostile: FakeCoordinator, run: Run, command: str, form: str) -> None:
    """Tables show escapes, JSON and YAML read back as they were. A surrogate broke `events` for good, once."""
    result = run(*(word.format(name=HOSTILE) for word in command.split()), "-o", form)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    said = result.stdout + result.stderr
    assert not is_unsafe(said.replace("\r\n", "\n"))
    if form != "table":
        data = json.loads(result.stdout) if form == "json" else yaml.load(result.stdout, yaml.SafeLoader)
        assert command == "replicators" or HOSTILE in _texts(data)
    elif command != "replicators":
        assert SHOWN in said


def _texts(data: Any) -> list[str]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [text for item in data for text in _texts(item)]
    return [data] if isinstance(data, str) else []


@pytest.mark.parametrize("terminal", [True, False])
def test_the_live_view_shows_them(terminal: bool, hostile: FakeCoordinator) -> None:
    """Drawn or by lines."""
    stream = io.StringIO()
    console = TerminalConsole(stream)
    console._force_terminal = terminal
    console.width = 2000
    assert not isinstance(hostile.status, type(iter(())))
    with LiveView(console) as view:
        view.show(0.0, hostile.status, hostile.events)  # type: ignore[arg-type]
    drawn = stream.getvalue()
    assert SHOWN in drawn
    assert "\x1b[31mRED" not in drawn
    assert "\x1b]0" not in drawn
    assert "\u202e" not in drawn


def test_sentences_and_log_records_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr as well; markup of rich is text."""
    say(HOSTILE, "red")
    out().print(table([{"name": "[red]x[/red] [/] [link=http://h]y[/link]"}], [("N", lambda row: row["name"])]))
    printed = capsys.readouterr()
    assert not is_unsafe(printed.err.replace("\n", ""))
    assert "[red]x[/red] [/] [link=http://h]y[/link]" in printed.out
    record = logging.LogRecord("a", logging.ERROR, "", 0, "group %s", (HOSTILE,), None)
    assert not is_unsafe(PrintableFormatter().format(record))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("form", [OutputFormat.json, OutputFormat.yaml])
def test_data_reads_back_whatever_stdout_can_encode(
    monkeypatch: pytest.MonkeyPatch, encoding: str, form: OutputFormat
) -> None:
    """JSON that a C locale has made of it is JSON."""
    everything = "".join(map(chr, [*range(0x300), *range(0x2000, 0x2070), 0xD800, 0xFEFF, 0xDFFF, 0xFFFE, 0x1F600]))
    value = {"name": [everything, HOSTILE, "ä", "no", "1:30", ""], HOSTILE: "€"}
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", stream)
    emit(value, form, lambda: None)
    printed = stream.buffer.getvalue().decode(encoding)
    assert (json.loads(printed) if form is OutputFormat.json else yaml.load(printed, yaml.SafeLoader)) == value
    assert not is_unsafe(printed)


def test_there_is_one_way_to_the_terminal() -> None:
    """No module of the command line makes a console or a text of its own, or writes to a stream.

    Where it begins and ends nothing can be imported: there stand sentences of our own alone.
    """
    own = {"output.py", "streams.py", "printable.py"}
    writing = {"app.py", "__init__.py"}
    forbidden = {"Console", "Text", "Table", "print", "echo", "secho", "stdout", "stderr", "from_markup"}
    for path in Path(mirror_ray.cli.__file__).parent.glob("*.py"):
        if path.name in own:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.id if isinstance(called, ast.Name) else None
            assert name not in forbidden, f"{path.name}:{node.lineno} calls {name}"  # type: ignore[attr-defined]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                direct = node.value.id in {"sys", "typer", "click"} and node.attr in forbidden
                assert not direct or path.name in writing, f"{path.name}:{node.lineno} writes past output.py"
