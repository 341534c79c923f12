"""The live view of a running system: a table that is redrawn on a terminal, otherwise one line per flow."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live

from mirror_ray.cli.columns import LIVE_FLOWS, replicators_text, rows, status_lines
from mirror_ray.cli.output import Columns, column, count, duration, size, table, text
from mirror_ray.cli.progress import Eta
from mirror_ray.observe.events import Event
from mirror_ray.observe.status import FlowStatus, SystemStatus

#: Without a terminal a line is printed when a flow's state changes, and at this interval.
_LINE_INTERVAL_S = 2.0

_EVENTS_SHOWN = 5

_FLOWS_WITH_ETA: Columns = (*LIVE_FLOWS, column("CAUGHT UP IN", "eta"))


class LiveView:
    """A context manager; ``show`` takes one snapshot after the other.

    ``tail`` returns more to draw below, for each snapshot.
    """

    def __init__(self, console: Console, tail: Callable[[], RenderableType] | None = None) -> None:
        self._console = console
        self._tail = tail
        self._eta = Eta()
        self._live = Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else None
        self._printed: dict[str, tuple[float, str]] = {}
        self._problems: set[str] = set()
        self._gateway: str | None = None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, now_s: float, status: SystemStatus, events: tuple[Event, ...] = ()) -> None:
        """Draw a snapshot that was taken at ``now_s`` of any monotonic clock."""
        etas = {flow.flow: self._eta.seconds(now_s, flow) for flow in status.flows}
        if self._live:
            self._live.update(self._drawing(status, etas, events), refresh=True)
        else:
            self._print(now_s, status, etas)

    def _drawing(
        self, status: SystemStatus, etas: dict[str, float | None], events: tuple[Event, ...]
    ) -> RenderableType:
        flows = [{**row, "eta": _eta_text(etas[row["flow"]])} for row in rows(status.flows)]
        running = [replicator for replicator in status.replicators if replicator.state == "running"]
        cpu = sum(replicator.cpu for replicator in running)
        memory = sum(replicator.memory for replicator in running)
        parts: list[RenderableType] = [
            table(flows, _FLOWS_WITH_ETA),
            text(f"\n{replicators_text(status, len(running))}, {cpu:.0%} of a core, {size(memory)}", "dim"),
        ]
        if status.gateway is not None:
            parts.append(text(f"web UI and metrics: {status.gateway}", "dim"))
        parts += [text(line, "red") for line in status_lines(status)]
        if self._tail:
            parts.append(self._tail())
        parts += [text(str(event), "dim", cut=True) for event in events[-_EVENTS_SHOWN:]]
        return Group(*parts)

    def _print(self, now_s: float, status: SystemStatus, etas: dict[str, float | None]) -> None:
        running = sum(replicator.state == "running" for replicator in status.replicators)
        for flow in status.flows:
            printed_s, state = self._printed.get(flow.flow, (-_LINE_INTERVAL_S, ""))
            if flow.state != state or now_s - printed_s >= _LINE_INTERVAL_S:
                self._printed[flow.flow] = (now_s, flow.state)
                line = flow_line(flow, etas[flow.flow])
                self._console.print(f"{line}  replicators {running}/{status.desired_replicators}", soft_wrap=True)
        if status.gateway is not None and status.gateway != self._gateway:
            self._console.print(f"web UI and metrics: {status.gateway}", soft_wrap=True)
            self._gateway = status.gateway
        problems = set(status_lines(status))
        for problem in sorted(problems - self._problems):
            self._console.print(problem, soft_wrap=True)
        self._problems = problems


def flow_line(flow: FlowStatus, eta_s: float | None) -> str:
    """Describe a flow in one line."""
    return (
        f"{flow.flow}  {flow.state}  copying {flow.copying}/{flow.partitions}  lag {count(flow.lag_records)}"
        f"  {count(flow.records_per_s)} records/s  {size(flow.bytes_per_s)}/s  caught up in {_eta_text(eta_s)}"
    )


def _eta_text(eta_s: float | None) -> str:
    return "now" if eta_s == 0 else duration(eta_s)
