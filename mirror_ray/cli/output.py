"""Printing: tables that a pipe can read, JSON, YAML, and sentences for people on stderr."""

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

WATCH_EVERY_S = 2.0

#: Wide enough that no row is cut or wrapped where no terminal sets the width.
_UNBOUNDED = 10_000

Row = Mapping[str, Any]
#: Heading, and the cell made from a row.
Columns = Sequence[tuple[str, Callable[[Row], str]]]


class TerminalConsole(Console):
    """Shows strings as they are: no markup in them is followed, no control character of theirs is sent."""

    def __init__(self, stream: TextIO) -> None:
        width = None if stream.isatty() else _UNBOUNDED
        super().__init__(file=stream, width=width, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """See ``Console``; every string that is printed comes through here, and the cells of tables do."""
        return super().render_str(printable(text), **options)

    def on_broken_pipe(self) -> None:
        """See ``Console``: the stream has ended the process already, where it is one of ours."""
        raise SystemExit(BROKEN_PIPE_CODE)


def out() -> Console:
    """Console for data. Rich keeps to ``NO_COLOR`` by itself."""
    return TerminalConsole(sys.stdout)


def err() -> Console:
    """Console for talk."""
    return TerminalConsole(sys.stderr)


def say(text: str, style: str | None = None) -> None:
    """One sentence on stderr."""
    err().print(text, style=style, soft_wrap=True)


def text(said: str, style: str = "", *, cut: bool = False) -> Text:
    """A part of a larger drawing; ``cut``: no wider than the terminal."""
    return Text(printable(said), style=style, overflow="ellipsis" if cut else None)


def table(rows: Sequence[Row], columns: Columns) -> Table:
    """Rows in columns, without lines, as kubectl prints them."""
    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for heading, _ in columns:
        result.add_column(one_line(heading), no_wrap=True, overflow="ellipsis")
    for row in rows:
        result.add_row(*(one_line(cell(row)) for _, cell in columns))
    return result


def emit(value: Any, output: OutputFormat, show: Callable[[], None]) -> None:
    """Print plain ``value`` as JSON or YAML, or let ``show`` print it for people.

    JSON and YAML read back as the same value, whatever is in it, and whatever stdout can encode.
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

    def string(dumper: yaml.SafeDumper, found: str) -> yaml.ScalarNode:
        return dumper.represent_scalar("tag:yaml.org,2002:str", found, style='"' if is_unsafe(found) else None)

    Dumper.add_representer(str, string)
    return quoted(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=_is_unicode()))


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().startswith("utf")


def watching(show: Callable[[], None], *, watch: bool) -> None:
    """Call ``show`` once, or with ``watch`` every two seconds until Ctrl-C, on a cleared screen where there is one."""
    if not watch:
        show()
        return
    with suppress(KeyboardInterrupt):
        while True:
            out().clear()
            show()
            time.sleep(WATCH_EVERY_S)


def stopped_text(*, drained: bool) -> str:
    """How a system has ended."""
    return "is drained and stopped" if drained else "is stopped; not all was drained in time, and nothing is lost"


def count(value: float | None) -> str:
    """A number with thousands apart; ``-`` where it is unknown."""
    return "-" if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes, in decimal units."""
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(value_s: float | None) -> str:
    """Seconds as people write them."""
    if value_s is None:
        return "-"
    if value_s < 60:
        return f"{value_s:.1f}s" if value_s < 10 else f"{value_s:.0f}s"
    minutes, seconds = divmod(round(value_s), 60)
    if minutes < 60:
        return f"{minutes}m{seconds:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24}h"
