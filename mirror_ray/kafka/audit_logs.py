"""The logs of a process, each into the audit log of one flow.

An audit log writes from a thread of its own, so that nobody waits for the log unless ``audit.required`` is set.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from mirror_ray.config.settings import AuditSettings, MirrorSettings
from mirror_ray.kafka.audit_log import UNRECORDED, AuditLog
from mirror_ray.kafka.audit_topics import AuditWriter
from mirror_ray.model.audit import AuditEntry, AuditPrincipal, entry_of
from mirror_ray.model.cluster_change import ClusterChange
from mirror_ray.model.errors import MirrorError
from mirror_ray.model.names import FlowName

_log = logging.getLogger(__name__)

#: Entries that wait for a target that does not answer; a record is at most some KB.
_MOST_WAITING: Final = 10_000
#: A thread with nothing to write ends after so long, and closes its connections.
_IDLE_S: Final = 5.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 10.0
#: A refusal that repeats is recorded once in so long.
_AGAIN_MS: Final = 3_600_000


class KafkaAuditLog:
    """The real ``AuditLog``, of one flow. What waits is bounded; what does not fit is lost, and counted."""

    def __init__(self, writer: AuditWriter, settings: AuditSettings, flow: str, who: AuditPrincipal) -> None:
        self._writer, self._settings = writer, settings
        self._flow, self._who = flow, who
        self._changed = threading.Condition()
        self._waiting: deque[AuditEntry] = deque()
        self._thread: threading.Thread | None = None
        self._refusals: dict[tuple[str, str, str], tuple[str | None, int]] = {}
        self._put = self._done = 0
        self._problem: str | None = None
        #: Entries that could not be recorded since the process began.
        self.lost = 0

    @property
    def problem(self) -> str | None:
        """Why nothing can be written now, or that something was lost; None: all is well."""
        if self._problem is None and self.lost:
            return "changes were made that are not in the audit log, because its cluster did not answer for too long"
        return None if self._problem is None else f"the audit log can't be written: {self._problem}"

    def begin(self, changes: Sequence[ClusterChange]) -> list[AuditEntry]:
        """Record that changes are intended, as ``AuditLog`` has it."""
        now_ms = int(time.time() * 1000)
        entries = [
            entry_of(change, self._who, self._flow, time_ms=now_ms, id_=uuid.uuid4().hex, outcome="intended")
            for change in changes
        ]
        if self._settings.required and entries:
            self._keep_first(entries)
        return entries

    def end(self, entries: Iterable[AuditEntry]) -> None:
        """Record outcomes, as ``AuditLog`` has it."""
        required = self._settings.required
        self._append([entry for entry in entries if required or self._is_news(entry)])

    def flush(self, timeout_s: float) -> bool:
        """Wait until all entries are in the log; returns whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._done >= self._put, timeout_s)

    def _is_news(self, entry: AuditEntry) -> bool:
        """False for a change that had no effect, and for a refusal that repeats too soon: they are not recorded."""
        key = (entry.kind, entry.cluster, entry.subject)
        if entry.outcome != "refused":
            self._refusals.pop(key, None)
            return entry.outcome != "unchanged"
        error, told_ms = self._refusals.get(key, (None, 0))
        if error == entry.error and entry.time_ms - told_ms < _AGAIN_MS:
            return False
        if len(self._refusals) >= _MOST_WAITING:
            self._refusals.clear()
        self._refusals[key] = entry.error, entry.time_ms
        return True

    def _keep_first(self, entries: Sequence[AuditEntry]) -> None:
        """Write intended changes and wait for them; one that is being written when time is over may still come."""
        with self._changed:
            fits = len(self._waiting) + len(entries) <= _MOST_WAITING
            if fits:
                self._append(entries)
                if self._changed.wait_for(lambda: self._waiting_none_of(entries), self._writer.timeout_s):
                    return
                for entry in entries:
                    if entry in self._waiting:
                        self._waiting.remove(entry)
                        self._done += 1
        raise MirrorError(
            f"flow {self._flow}: nothing was changed, for audit.required is set and the audit log can't be written: "
            f"{self._problem or 'its cluster does not answer'}"
        )

    def _waiting_none_of(self, entries: Sequence[AuditEntry]) -> bool:
        return not self._waiting or not any(entry is waiting for waiting in self._waiting for entry in entries)

    def _append(self, entries: Sequence[AuditEntry]) -> None:
        with self._changed:
            room = _MOST_WAITING - len(self._waiting)
            self._waiting.extend(entries[:room])
            self._put += min(room, len(entries))
            if len(entries) > room:
                if not self.lost:
                    _log.error("flow %s: changes are lost to the audit log: %s", self._flow, self._problem)
                self.lost += len(entries) - room
            if self._waiting and self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"audit {self._flow}", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while batch := self._next():
            try:
                self._writer.write(batch)
            except Exception as error:  # noqa: BLE001 - whatever it was, the next try may work
                if self._problem is None:
                    _log.warning("flow %s: the audit log can't be written: %s", self._flow, error)
                self._problem = str(error) or type(error).__name__
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
                continue
            self._problem, pause_s = None, _FIRST_PAUSE_S
            with self._changed:
                for entry in batch:
                    # One that nobody waits for any more has been taken out.
                    if self._waiting and self._waiting[0] is entry:
                        self._waiting.popleft()
                        self._done += 1
                self._changed.notify_all()

    def _next(self) -> list[AuditEntry]:
        """The entries to be written next; they stay waiting until they are written. None: the thread ends."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), _IDLE_S):
                self._thread = None
                self._writer.close()
            return list(self._waiting)


class AuditLogs:
    """The audit logs that a process writes to: one for each flow. Thread-safe.

    Made where the process or the command begins, and handed to all that changes a cluster.
    """

    def __init__(self, who: AuditPrincipal) -> None:
        """``who``: the author of what is written."""
        self.who = who
        self._logs: dict[tuple[object, ...], KafkaAuditLog] = {}
        self._lock = threading.Lock()

    def of(self, settings: MirrorSettings, flow: FlowName, *, operator: str | None = None) -> AuditLog:
        """The audit log of a flow, on its target. ``operator``: the author, where it is not the process itself."""
        if not settings.audit.enabled:
            return UNRECORDED
        target = settings.clusters[flow.target]
        who = replace(self.who, operator=operator or self.who.operator)
        key = (target, flow, settings.audit, who)
        with self._lock:
            if key not in self._logs:
                writer = AuditWriter(target, flow.source, settings.audit)
                self._logs[key] = KafkaAuditLog(writer, settings.audit, str(flow), who)
            return self._logs[key]

    def problems(self) -> dict[str, str]:
        """The flows whose changes can't be recorded now, or whose entries were lost, and why."""
        with self._lock:
            logs = list(self._logs.items())
        return {str(key[1]): log.problem for key, log in logs if log.problem is not None}

    def flush(self, timeout_s: float) -> bool:
        """Wait until all entries are in their logs; returns whether they are."""
        until_s = time.monotonic() + timeout_s
        with self._lock:
            logs = list(self._logs.values())
        done = [log.flush(max(0.0, until_s - time.monotonic())) for log in logs]
        return all(done)
