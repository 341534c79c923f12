"""The command line: which commands there are, and what an error looks like."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mirror_ray.cli import (
    acting,
    auditing,
    backfill,
    bench,
    changing,
    chaos,
    compare,
    demo,
    drift,
    failover,
    groups,
    looking,
    machine,
    planning,
    report,
    takeover,
    translating,
    up,
    verify,
)
from mirror_ray.cli.output import say
from mirror_ray.model.errors import MirrorError

_FAILED_IN_THE_MIDDLE = 4
_INTERRUPTED = 130


class _Commands(TyperGroup):
    """Ends a command that raises a MirrorError with its text and its exit code; ``--debug`` shows the traceback too."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except MirrorError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            for line in str(error).splitlines():
                say(f"error: {line}", "red")
            raise typer.Exit(error.exit_code) from error


app = typer.Typer(
    name="mirror-ray",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Kafka replication between clusters by Ray actors, in place of MirrorMaker 2."
    " Exit codes: 0 done, 1 the thing asked about is not so, 2 usage or configuration,"
    " 3 a cluster can't be reached, 4 failed in the middle.",
)


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("-v", "--debug", help="Show tracebacks and the log.")] = False,
) -> None:
    import logging

    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, stream=sys.stderr)


app.command("demo")(demo.demo)
app.command("validate")(planning.validate)
app.command("plan")(planning.plan)
app.command("up")(up.up)
app.command("down")(acting.down)
app.command("status")(looking.status)
app.command("lag")(looking.lag)
app.command("topics")(looking.topics)
app.command("groups")(groups.groups)
app.command("translate")(translating.translate)
app.command("compare")(compare.compare)
app.command("drift")(drift.drift)
app.command("failover")(failover.failover)
app.command("failback")(failover.failback)
app.command("takeover")(takeover.takeover)
app.command("handback")(takeover.handback)
app.command("verify")(verify.verify)
app.command("report")(report.report)
app.command("replicators")(looking.replicators)
app.command("events")(looking.events)
app.command("audit")(auditing.audit)
app.command("gaps")(looking.gaps)
app.command("backfill")(backfill.backfill)
app.command("resolve")(acting.resolve)
app.command("scale")(acting.scale)
app.command("set")(changing.set_keys)
app.command("config")(changing.config)
app.command("pause")(acting.pause)
app.command("resume")(acting.resume)
app.add_typer(machine.clusters, name="clusters")
app.command("jars")(machine.jars)
app.command("bench")(bench.bench)
app.command("chaos")(chaos.chaos)
app.command("version")(machine.show_version)


def main() -> None:
    """Run the command line of this process, and end the process with its exit code."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception:  # noqa: BLE001 - a mistake of ours: the traceback, and no exit code that means an answer
        traceback.print_exc()
        sys.exit(_FAILED_IN_THE_MIDDLE)
