"""Printing: data as tables, JSON or YAML on stdout, and messages for people on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirror_ray.cli.options import OutputFormat
from mirror_ray.cli.printable import is_unsafe, one_line, printable, quoted
from mirror_ray.cli.streams import BROKEN_PIPE_CODE

WATCH_INTERVAL_S = 2.0

#: Width without a terminal: no row is cut or wrapped.
_UNBOUNDED = 10_000

Row = Mapping[str, Any]
#: A heading, and what makes the cell from a row.
Column = tuple[str, Callable[[Row], str]]
Columns = Sequence[Column]


class TerminalConsole(Console):
    """Prints strings literally: markup is not followed, and control characters are shown, not sent."""

    def __init__(self, stream: TextIO) -> None:
        width = None if stream.isatty() else _UNBOUNDED
        super().__init__(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape control characters; every printed string and every cell of a table passes through here."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """End the process with the exit code of SIGPIPE."""
        raise SystemExit(BROKEN_PIPE_CODE)


def out() -> Console:
    """Return a console for data on stdout. Rich respects ``NO_COLOR``."""
    return TerminalConsole(sys.stdout)


def err() -> Console:
    """Return a console for messages on stderr."""
    return TerminalConsole(sys.stderr)


def say(text: str, style: str | None = None) -> None:
    """Print one message on stderr."""
    err().print(text, style=style, soft_wrap=True)


def text(content: str, style: str = "", *, cut: bool = False) -> Text:
    """Make a piece of the live view; with ``cut`` it is no wider than the terminal."""
    return Text(printable(content), style=style, overflow="ellipsis" if cut else None)


def column(heading: str, field: str, form: Callable[[Any], str] = str) -> Column:
    """Make a column that shows one field of each row, formatted by ``form``."""
    return heading, lambda row: form(row[field])


def or_dash(value: object) -> str:
    """Format a value; ``-`` if it is missing or empty."""
    return str(value) if value or value == 0 else "-"


def or_empty(value: object) -> str:
    """Format a value; empty if it is missing."""
    return "" if value is None else str(value)


def yes_no(value: object) -> str:
    """Format a truth value."""
    return "yes" if value else "no"


def render(rows: Sequence[Row], columns: Columns, output: OutputFormat) -> None:
    """Print rows: as a table, or all their fields as JSON or YAML."""
    emit(rows, output, lambda: out().print(table(rows, columns)))


def table(rows: Sequence[Row], columns: Columns) -> Table:
    """Make a table without lines, as kubectl prints them."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading, _ in columns:
        result.add_column(one_line(heading), no_wrap=True, overflow="ellipsis")
    for row in rows:
        result.add_row(*(one_line(cell(row)) for _, cell in columns))
    return result


def emit(value: Any, output: OutputFormat, show: Callable[[], None]) -> None:
    """Print plain ``value`` as JSON or YAML, or let ``show`` print it for people.

    JSON and YAML read back as the same value, whatever stdout can encode.
    """
    if output is OutputFormat.json:
        sys.stdout.write(quoted(json.dumps(value, indent=2, ensure_ascii=not _is_unicode())) + "\n")
    elif output is OutputFormat.yaml:
        sys.stdout.write(_yaml(value))
    else:
        show()
    sys.stdout.flush()


def _yaml(value: Any) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def string(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if is_unsafe(value) else None)

    Dumper.add_representer(str, string)
    return quoted(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=_is_unicode()))


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def watching(show: Callable[[], None], *, watch: bool) -> None:
    """Call ``show`` once; with ``watch`` every two seconds until Ctrl-C, on a cleared screen if there is a terminal."""
    if not watch:
        show()
        return
    with suppress(KeyboardInterrupt):
        while True:
            out().clear()
            show()
            time.sleep(WATCH_INTERVAL_S)


def stopped_text(*, drained: bool) -> str:
    """Say how a system has stopped."""
    return "is drained and stopped" if drained else "is stopped; not all was drained in time, and nothing is lost"


def count(value: float | None) -> str:
    """Format a number with separators of thousands; ``-`` if it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Format bytes in decimal units; ``-`` if they are unknown."""
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(value_s: float | None) -> str:
    """Format seconds as people write them; ``-`` if they are unknown."""
    if value_s is None:
        return "-"
    if value_s < 60:
        return f"{value_s:.1f}s" if value_s < 10 else f"{value_s:.0f}s"
    minutes, seconds = divmod(round(value_s), 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24}h"
