"""The command translate: offsets on the other side, for one offset, one group or all; now or at a past moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirror_ray import runtime
from mirror_ray.cli import columns
from mirror_ray.cli.audit import audited
from mirror_ray.cli.control import confirm, parse_scope
from mirror_ray.cli.options import DEFAULT_NAME, AddressOption, FormatOption, NameOption, OutputFormat, YesOption
from mirror_ray.cli.output import Columns, Row, column, or_empty, render, say, yes_no
from mirror_ray.cli.system import ConfigOption, RequiredFlow, find_system, parse_flow, ray_for_spark
from mirror_ray.cli.times import TIME_FORMS, parse_time
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ConfigError, MirrorError
from mirror_ray.observe.groups import GroupStatus

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings
    from mirror_ray.failover.bulk_translation import BulkOrder, BulkRow
    from mirror_ray.groups.translated_offset import TranslatedOffset
    from mirror_ray.kafka.audit_log import AuditLog
    from mirror_ray.observe.groups import GroupPartitionStatus
    from mirror_ray.offsets.translation import Translation

_TRANSLATED: Columns = (
    column("TOPIC", "topic"),
    column("PARTITION", "partition"),
    column("SOURCE OFFSET", "source_offset", columns.offset),
    column("TARGET TOPIC", "target_topic"),
    column("TARGET OFFSET", "target_offset", columns.offset),
    column("EXACT", "exact", yes_no),
    column("REASON", "reason", or_empty),
)
_ALL: Columns = (column("GROUP", "group"), *_TRANSLATED)
_COMMITTED: Columns = (*_ALL, column("OUTCOME", "outcome", or_empty))
_FILE = "translated.parquet"


def translate(
    flow: RequiredFlow,
    partition: Annotated[
        str | None, typer.Argument(metavar="[TOPIC:PARTITION]", help="A partition of the source, with --offset.")
    ] = None,
    group: Annotated[str | None, typer.Option("--group", metavar="GROUP", help="A group's offsets.")] = None,
    offset: Annotated[int | None, typer.Option("--offset", metavar="N", min=0, help="An offset.")] = None,
    back: Annotated[bool, typer.Option("--back", help="The offset is one of the remote partition.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="All groups' offsets.")] = False,
    spark: Annotated[bool, typer.Option("--spark", help="Of --all: Spark reads the maps, for very many rows.")] = False,
    as_of: Annotated[
        str | None, typer.Option("--as-of", metavar="TIME", help=f"Of --all: what was committed then. {TIME_FORMS}.")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help=f"Of --all: write DIR/{_FILE}, too.")] = None,
    commit: Annotated[
        bool, typer.Option("--commit", help="Of --all: commit them on the target, by the rules of the group sync.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Of --commit: say what would be committed.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Of --commit: replace offsets that somebody else committed, too.")
    ] = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    output: FormatOption = OutputFormat.table,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Say where a group's offsets, all groups', or one offset are on the other side.

    Exit 1 where one has no place, 4 where a commit was refused.
    """
    if everything:
        if (group, partition, offset, back) != (None, None, None, False):
            raise ConfigError("--all is for all groups: leave --group, TOPIC:PARTITION, --offset and --back out")
        if (dry_run or force) and not commit:
            raise ConfigError("--dry-run and --force are for --commit")
        order = _order(flow, as_of, commit=commit, dry=dry_run, force=force)
        if to is not None:
            _prepare(to)
        rows, refused = _translate_all(order, config, name, address, spark=spark, yes=yes)
        render(rows, _COMMITTED if commit else _ALL, output)
        if to is not None:
            _write(rows, to)
        if refused is not None:
            raise MirrorError(refused)
    else:
        if spark or commit or dry_run or force or (as_of, to, config) != (None, None, None):
            raise ConfigError("--spark, --as-of, --to, --commit, --dry-run, --force and --config are for --all")
        rows = _translate_one(flow, partition, group, offset, name, address, back=back)
        render(rows, _TRANSLATED, output)
    if any(row["target_offset"] is None or row["source_offset"] is None for row in rows):
        raise typer.Exit(1)


def _translate_one(
    flow: str, scope: str | None, group: str | None, offset: int | None, name: str, address: str | None, *, back: bool
) -> list[Row]:
    topic, partition = parse_scope(scope)
    with runtime.attach(name, address) as system:
        if group is not None and scope is None and offset is None:
            return _translate_group(system, flow, group)
        if group is None and topic is not None and partition is not None and offset is not None:
            return _translate_offset(system, flow, topic, partition, offset, back=back)
    raise ConfigError("give --group GROUP, TOPIC:PARTITION and --offset N, or --all")


def _translate_group(system: Mirror, flow: str, group: str) -> list[Row]:
    found = [status for status in system.groups(flow) if status.group == group]
    if not found:
        raise ConfigError(f"{flow} syncs no group {group!r}: see groups and groups.exclude in its configuration")
    return [row for status in found for row in _group_rows(status)]


def _group_rows(found: GroupStatus) -> list[Row]:
    return [
        _row(part.topic, part.partition, part.source_offset, part.remote_topic, part.target_offset, part)
        for part in found.partitions
        if part.state != "uncopied"
    ]


def _row(
    topic: str,
    partition: int,
    source_offset: int | None,
    target_topic: str | None,
    target_offset: int | None,
    found: GroupPartitionStatus | Translation | TranslatedOffset,
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "source_offset": source_offset,
        "target_topic": target_topic,
        "target_offset": target_offset,
        "exact": found.exact,
        "reason": found.reason,
    }


def _translate_offset(system: Mirror, flow: str, topic: str, partition: int, offset: int, *, back: bool) -> list[Row]:
    """One row for each remote topic of the topic; ``back``: an offset of a remote topic belongs to one flow alone."""
    remotes = {status.flow: status.remote_topic for status in system.topics(flow) if status.topic == topic}
    rows: list[Row] = []
    for name in [flow] if back else dict.fromkeys((flow, *remotes)):
        found = system.translate(name, topic, partition, offset, back=back)
        source, target = (found.offset, offset) if back else (offset, found.offset)
        rows.append(_row(topic, partition, source, remotes.get(name, ""), target, found))
    return rows


def _order(flow: str, as_of: str | None, *, commit: bool, dry: bool, force: bool) -> BulkOrder:
    from mirror_ray.failover.bulk_translation import BulkOrder

    name = parse_flow(flow)
    at_ms = parse_time(as_of, int(time.time() * 1000)) if as_of is not None else None
    return BulkOrder(flow=name, as_of_ms=at_ms, commit=commit, dry=dry, force=force)


def _translate_all(
    order: BulkOrder, config: Path | None, name: str, address: str | None, *, spark: bool, yes: bool
) -> tuple[list[Row], str | None]:
    """Translate all groups' offsets; also returns the text about commits that were refused."""
    to_the_past = order.as_of_ms is not None and order.commit and not order.dry
    with find_system(config, name, address, order.flow, must_answer=to_the_past) as (settings, mirror):
        settings.flow(order.flow)
        if mirror is not None and not spark and order.as_of_ms is None and not order.commit:
            # The checkpoint actors know the answer already.
            found = mirror.groups(str(order.flow))
            return [{"group": status.group, **row} for status in found for row in _group_rows(status)], None
        if to_the_past and mirror is not None:
            _check_no_group_sync(order, mirror.settings())
        if order.commit and not order.dry:
            confirm(f"commit the offsets of {order.flow} on {order.flow.target}?", yes=yes)
        dry_run = order.dry or not order.commit
        with audited(settings, order.flow, name, "translate_commit", dry_run=dry_run) as audit_log:
            done = _carry_out(settings, order, name, address, mirror, audit_log, spark=spark)
    if order.as_of_ms is not None:
        say(f"as of {datetime.fromtimestamp(order.as_of_ms / 1000).astimezone().isoformat(timespec='milliseconds')}")
    if order.commit:
        for outcome, count in Counter(row.outcome for row in done).most_common():
            say(f"{count} offsets {outcome}")
    return [_plain(row, outcome=order.commit) for row in done], _refused(done, order.flow.target)


def _carry_out(
    settings: MirrorSettings,
    order: BulkOrder,
    name: str,
    address: str | None,
    mirror: Mirror | None,
    audit_log: AuditLog,
    *,
    spark: bool,
) -> Sequence[BulkRow]:
    from mirror_ray.failover.bulk_translation import carry_out
    from mirror_ray.groups.bulk import LocalMaps

    if not spark:
        return asyncio.run(carry_out(settings, order, LocalMaps, audit_log))
    with ExitStack() as stack:
        stack.enter_context(ray_for_spark(name, address, mirror))
        from mirror_ray.spark.session import spark_session
        from mirror_ray.spark.translation import SparkMaps

        session = stack.enter_context(spark_session(f"translate {order.flow}", settings.spark, say))
        return asyncio.run(carry_out(settings, order, partial(SparkMaps, session), audit_log))


def _check_no_group_sync(order: BulkOrder, running: MirrorSettings) -> None:
    """Check that no group sync would move on at once what is committed from the past.

    ``running``: the settings by which the system runs, whatever a file says.

    Raises:
        ConfigError: The flow's group sync runs.
    """
    groups = running.flow(order.flow).groups
    if groups.emit_checkpoints_enabled and groups.sync_offsets_enabled:
        raise ConfigError(
            f"{order.flow} runs, and its group sync would move the groups on again within seconds: set"
            " sync.group.offsets.enabled = false (groups.sync_offsets_enabled), or end the system with"
            " `mirror-ray down` and give --config FILE"
        )


def _refused(rows: Sequence[BulkRow], target: str) -> str | None:
    from mirror_ray.failover.commit_offsets import refusal

    refused = [(row.translated.group, row.refused) for row in rows if row.refused is not None]
    return refusal(target, refused) if refused else None


def _plain(row: BulkRow, *, outcome: bool) -> Row:
    found, (topic, partition) = row.translated, row.translated.origin
    remote = found.destination.topic if found.destination is not None else None
    plain = {"group": found.group, **_row(topic, partition, found.origin_offset, remote, found.offset, found)}
    return plain | {"outcome": row.outcome} if outcome else plain


def _prepare(directory: Path) -> None:
    """Create the directory, before anything else is done.

    Raises:
        ConfigError: The file is there already, or can't be written there.
    """
    path = directory / _FILE
    try:
        if path.exists():
            raise ConfigError(f"{path} is there already: name another directory with --to")
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error}") from error


def _write(rows: Sequence[Row], directory: Path) -> None:
    """Write the rows as Parquet. Raises ConfigError if the file can't be written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = directory / _FILE
    names = ("group", "topic", "partition", "source_offset", "target_topic", "target_offset", "exact", "reason")
    types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.string(), pa.int64(), pa.bool_(), pa.string())
    fields = [*zip(names, types, strict=True), *([("outcome", pa.string())] if rows and "outcome" in rows[0] else [])]
    try:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields)), path)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error}") from error
    say(f"{len(rows)} rows in {path}")
