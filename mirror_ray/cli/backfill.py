"""The command backfill: copies a range of a topic beside the live copy."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirror_ray import runtime
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat
from mirror_ray.cli.output import Columns, column, count, duration, emit, err, or_empty, out, say, size, table
from mirror_ray.cli.times import TIME_FORMS, parse_time
from mirror_ray.model.errors import ConfigError, MirrorError

if TYPE_CHECKING:
    from mirror_ray.mirror import Mirror
    from mirror_ray.model.backfill import BackfillRequest
    from mirror_ray.model.start import StartPosition
    from mirror_ray.observe.backfills import BackfillStatus

_POLL_INTERVAL_S = 1.0
#: A backfill without progress for so long is reported as failed; it is retried nevertheless.
_NO_PROGRESS_S = 30.0
_BLOCKED = {"refused", "stopped", "paused"}
_OFFSETS = re.compile(r"\d+@\d+([,\s]+\d+@\d+)*", re.ASCII)

_COLUMNS: Columns = (
    column("BACKFILL", "name"),
    column("TOPIC", "topic"),
    column("INTO", "into"),
    column("STATE", "state"),
    ("COPIED", lambda row: f"{count(row['copied'])} of {count(row['offsets'])}"),
    column("RECORDS/S", "records_per_s", count),
    column("BYTES/S", "bytes_per_s", size),
    column("ETA", "eta_seconds", duration),
    column("ASKED", "asked"),
    column("REASON", "reason", or_empty),
)
#: Of a backfill in JSON, before its partitions.
_FIELDS = (
    *("name", "flow", "topic", "into", "asked", "behind", "state", "reason", "started_ms"),
    *("offsets", "copied", "records_per_s", "bytes_per_s", "eta_seconds"),
)
_RANGES: Columns = (
    column("PARTITION", "partition"),
    column("FROM", "start", count),
    column("TO", "end", count),
    ("OFFSETS", lambda row: count(row["end"] - row["start"])),
)


def backfill(
    flow: Annotated[str | None, typer.Argument(metavar="[FLOW]", help="For example 'A->B'.")] = None,
    topic: Annotated[
        str | None, typer.Argument(metavar="[TOPIC]", help="The source's. Without it: list backfills.")
    ] = None,
    *,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help=f"earliest; {TIME_FORMS}; or offsets (0@1500,1@2000).")
    ] = "earliest",
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="WHERE",
            help="As --from; what lies there is not copied any more. Without it: up to now, or without --into to where"
            " the live copy began.",
        ),
    ] = None,
    into: Annotated[str | None, typer.Option(metavar="OTHER", help="A new or empty topic on the target.")] = None,
    partitions: Annotated[str | None, typer.Option(metavar="N,N,...", help="Only these partitions.")] = None,
    behind: Annotated[
        bool, typer.Option("--behind", help="Without --into: older records may follow newer ones in the remote topic.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be copied; change nothing.")] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Don't wait for it.")] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop it. What is copied stays; the same command goes on with it.")
    ] = False,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Copy a range of a topic again, or what the live copy left out, beside a running flow; exactly once.

    Exit 1 when it was cancelled, 4 when it makes no progress.
    """
    with runtime.attach(name, address) as system:
        if flow is None or topic is None:
            show(list(system.backfills(flow)), output)
            return
        if cancel:
            found = system.cancel_backfill(flow, topic, into)
            say(f"{found.name} is cancelled: {found.copied:,} of {found.offsets:,} are copied and stay in {found.into}")
            return
        request = read_request(topic, start, end, into=into, partitions=partitions, behind=behind)
        found = system.backfill(flow, request, dry_run=dry_run)
        if dry_run:
            show_plan(found, output)
            return
        if not detach and found.state != "done":
            found = follow(system, found)
        _end(found, output, detach=detach)


def read_request(
    topic: str,
    start: str,
    end: str | None,
    *,
    into: str | None = None,
    partitions: str | None = None,
    behind: bool = False,
) -> BackfillRequest:
    """Read the options.

    Raises:
        ConfigError: One of them can't be read.
    """
    from mirror_ray.model.backfill import BackfillRequest

    now_ms = int(time.time() * 1000)
    words = [f"from {start}", f"to {end}" if end else "", f"partitions {partitions}" if partitions else ""]
    return BackfillRequest(
        topic=topic,
        start=read_point(start, now_ms),
        end=read_point(end, now_ms) if end is not None else None,
        into=into,
        partitions=_numbers(partitions),
        behind=behind,
        said=" ".join(word for word in words if word),
    )


def read_point(text: str, now_ms: int) -> StartPosition:
    """Read a start or an end in a topic: a word, offsets, or a point in time.

    Raises:
        ConfigError: It is none of these.
    """
    from mirror_ray.model.start import StartPosition, parse_start

    word = text.strip()
    if word in ("earliest", "latest"):
        return parse_start(word)
    if _OFFSETS.fullmatch(word):
        try:
            return parse_start(word.replace(",", " "))
        except ValueError as error:
            raise ConfigError(str(error)) from None
    return StartPosition("timestamp", parse_time(word, now_ms))


def _numbers(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise ConfigError(f"--partitions {text!r}: write numbers with commas between them, for example 0,3")
    return tuple(sorted({int(word) for word in words}))


def follow(system: Mirror, found: BackfillStatus) -> BackfillStatus:
    """Show progress until the backfill is done or cancelled.

    Raises:
        MirrorError: It makes no progress.
        KeyboardInterrupt: Ctrl-C; the backfill goes on.
    """
    console = err()
    moved_s = time.monotonic()
    try:
        with console.status(_line(found)) as line:
            while found.state not in ("done", "cancelled"):
                time.sleep(_POLL_INTERVAL_S)
                before = found.copied
                # A coordinator that has just restarted knows no backfills yet.
                found = next((status for status in system.backfills() if status.name == found.name), found)
                line.update(_line(found))
                if found.copied != before or found.state not in _BLOCKED:
                    moved_s = time.monotonic()
                if time.monotonic() - moved_s > _NO_PROGRESS_S:
                    raise MirrorError(
                        f"{found.name} makes no progress: {found.state}: {found.reason or 'until it is resumed'}"
                    )
    except KeyboardInterrupt:
        say(f"{found.name} goes on; `mirror-ray backfill` lists it, --cancel ends it")
        raise
    return found


def _line(found: BackfillStatus) -> str:
    rate = f"{found.records_per_s:,.0f} records/s, {size(found.bytes_per_s)}/s, {duration(found.eta_seconds)} left"
    return f"{found}" if found.state != "copying" else f"{found}  {rate}"


def _end(found: BackfillStatus, output: OutputFormat, *, detach: bool) -> None:
    emit(plain(found), output, lambda: out().print(str(found), soft_wrap=True))
    if detach and found.state not in ("done", "cancelled"):
        say("`mirror-ray backfill` shows how far it is")
    elif found.state == "cancelled":
        raise typer.Exit(1)


def show(found: list[BackfillStatus], output: OutputFormat) -> None:
    """List backfills."""
    rows = [plain(status) for status in found]
    emit(rows, output, lambda: out().print(table(rows, _COLUMNS) if rows else "no backfills"))


def show_plan(found: BackfillStatus, output: OutputFormat) -> None:
    """Show what a backfill would copy, partition by partition."""

    def print_plan() -> None:
        out().print(
            f"{found.flow}: {found.topic} into {found.into}, {found.offsets:,} offsets; nothing has been changed"
        )
        out().print(table(plain(found)["partitions"], _RANGES))

    emit(plain(found), output, print_plan)


def plain(found: BackfillStatus) -> dict[str, Any]:
    """A backfill as JSON."""
    return {name: getattr(found, name) for name in _FIELDS} | {
        "partitions": [asdict(part) for part in found.partitions]
    }
