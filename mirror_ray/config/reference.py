"""The tables of ``docs/configuration.md``, made from the rows of ``keys`` so that they can't drift."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel

from mirror_ray.config import keys as table
from mirror_ray.config.keys import ConfigKey, KeyUse
from mirror_ray.config.settings import ClusterSettings, FlowSettings, MirrorSettings

#: Where a key of each group is written in the file.
SCOPES: tuple[tuple[str, Sequence[ConfigKey]], ...] = (
    ("`KEY`, top of the file", table.DRIVER_KEYS),
    ("`KEY` for all flows, `A->B.KEY` for one", table.FLOW_KEYS),
    ("`KEY` for all clusters, `A.KEY` for one", table.CLUSTER_KEYS),
    ("`A.consumer.KEY` (source)", table.CONSUMER_KEYS),
    ("`B.producer.KEY` (target), `A->B.producer.override.KEY`", table.PRODUCER_KEYS),
    ("`A.admin.KEY`", table.ADMIN_KEYS),
    ("`B.KEY` (MM2's Connect worker)", table.WORKER_KEYS),
)
_SILENT = {
    "transforms.dead_letter_topic": "mm2-ray-dead-letters.<source>.internal",
    "topics.replication_factor": "2, or the number of brokers if smaller",
    "groups.checkpoints_replication_factor": "3, or the number of brokers if smaller",
    "offset_syncs.replication_factor": "3, or the number of brokers if smaller",
    "heartbeats.replication_factor": "3, or the number of brokers if smaller",
    "produce.compression_type": "as on the source",
    "limits.bytes_per_second": "none",
    "limits.windows": "none: always",
    "gateway.port": "8484, or any free one if that is taken",
    "gateway.tls.certificate": "none: plain HTTP",
    "gateway.tls.key": "none",
    "cost.price_per_gb": "0: no price is shown",
    "elastic.max_replicators": "none: the number stays",
}
_SYSTEM_SECTIONS = ("spark.", "gateway.", "alerts.", "cost.", "elastic.", "audit.")
#: What the fields begin with whose defaults are ours.
_OWN_SECTIONS = (
    "topics",
    "groups",
    "offset_",
    "heart",
    "limits",
    "statistics",
    "fetch",
    "produce",
    "trouble",
    "transforms",
    "cluster.",
    *_SYSTEM_SECTIONS,
)


def our_default(key: ConfigKey) -> str:
    """The default of the field that a key sets, written as in the file."""
    if key.field in _SILENT:
        return _SILENT[key.field]
    model: type[BaseModel] = FlowSettings
    if key.field.startswith("cluster."):
        model = ClusterSettings
    elif key.field.startswith(_SYSTEM_SECTIONS):
        model = MirrorSettings
    if key.field == "enabled":
        return "false"
    value: object = model
    for part in key.field.removeprefix("cluster.").split("."):
        if isinstance(value, type) and issubclass(value, BaseModel):
            value = value.model_fields[part].default
        else:
            value = getattr(value, part)
    return _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, dict)):
        return ", ".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None or value == {} else str(value)


def keys_table() -> str:
    """Every key that is used, ignored or refused, as Markdown."""
    parts: list[str] = []
    for scope, rows in SCOPES:
        # Each client repeats the cluster's keys; they are listed once.
        own = [row for row in rows if rows is table.CLUSTER_KEYS or row not in table.CLUSTER_KEYS]
        parts += [f"### {scope}", ""]
        parts += _table(("key", "native field", "default", ""), _used_rows(own))
        parts += _table(("ignored", "why"), _grouped(own, KeyUse.IGNORED))
        parts += _table(("refused", "instead"), _grouped(own, KeyUse.REFUSED))
    return "\n".join(parts).rstrip()


def deviations_table() -> str:
    """Every default that differs from MM2's, as Markdown."""
    rows = [row for _, scope in SCOPES for row in scope if row.name in table.DEVIATIONS and row.use is KeyUse.USED]
    unique = {(row.name, row.field): row for row in rows}.values()
    lines = [
        (
            f"`{row.name}`",
            _cell(row.default),
            _cell(our_default(row)),
            table.DEVIATIONS[row.name],
        )
        for row in unique
    ]
    return "\n".join(_table(("key", "MM2", "here", "why"), lines)).rstrip()


def _used_rows(rows: Iterable[ConfigKey]) -> list[tuple[str, ...]]:
    used = [row for row in rows if row.use is KeyUse.USED]
    return [(f"`{row.name}`", f"`{row.field}`" if row.field else "", _cell(_default_of(row)), row.text) for row in used]


def _default_of(row: ConfigKey) -> str:
    return our_default(row) if row.field.startswith(_OWN_SECTIONS) else row.default


def _grouped(rows: Iterable[ConfigKey], use: KeyUse) -> list[tuple[str, ...]]:
    by_text: dict[str, list[str]] = {}
    for row in rows:
        if row.use is use:
            allowed = " or ".join(f"`{value}`" if value else "empty" for value in row.accepted)
            by_text.setdefault(row.text, []).append(f"`{row.name}`" + (f" (other than {allowed})" if allowed else ""))
    return [(", ".join(names), text) for text, names in by_text.items()]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows),
        "",
    ]


def _cell(text: str) -> str:
    return f"`{text}`" if text else ""


def fill(document: str) -> str:
    """Put the current tables between the markers of a Markdown document."""
    for name, content in (("keys", keys_table()), ("defaults", deviations_table())):
        pattern = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
        match = pattern.search(document)
        if match is not None:
            document = f"{document[: match.start()]}{match[1]}\n{content}\n\n{match[2]}{document[match.end() :]}"
    return document


def main() -> None:
    """Write ``schema.json`` and the tables of ``docs/configuration.md`` anew.

    Run it by ``python -m mirror_ray.config.reference``.
    """
    from mirror_ray.config.native import json_schema

    here = Path(__file__).parent
    (here / "schema.json").write_text(json.dumps(json_schema(), indent=2) + "\n")
    docs = here.parents[1] / "docs" / "configuration.md"
    docs.write_text(fill(docs.read_text()))


if __name__ == "__main__":
    main()
