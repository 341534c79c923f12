"""The command line: which commands there are, and what an error looks like."""

from __future__ import annotations

import _thread
import logging
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mirror_ray.cli import (
    audit,
    backfill,
    bench,
    chaos,
    compare,
    config,
    control,
    demo,
    drift,
    failover,
    local,
    plan,
    report,
    status,
    takeover,
    translate,
    up,
    verify,
)
from mirror_ray.cli.exit_codes import INTERRUPTED_CODE
from mirror_ray.cli.output import say
from mirror_ray.cli.printable import PrintableFormatter, printable
from mirror_ray.cli.streams import open_streams
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import said_of

_FAILED_IN_THE_MIDDLE = 4
#: Errors of the network, which whoever meets them says in sentences of his own.
_NOT_OF_FILES = (ConnectionError, TimeoutError)


class _Commands(TyperGroup):
    """Ends a command that raises a MirrorError with its text and its exit code; ``--debug`` shows the traceback too."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (MirrorError, OSError) as error:
            if ctx.params.get("debug"):
                _say_traceback()
            elif isinstance(error, _NOT_OF_FILES):
                raise
            raise typer.Exit(_told(error)) from error


def _told(error: MirrorError | OSError) -> int:
    """Say what is wrong; the exit code."""
    if isinstance(error, OSError):
        say(f"error: {said_of(error)}", "red")
        return _FAILED_IN_THE_MIDDLE
    for line in str(error).splitlines():
        say(f"error: {line}", "red")
    return error.exit_code


def _say_traceback() -> None:
    sys.stderr.write(printable(traceback.format_exc()))


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
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, handlers=[handler])


app.command("demo")(demo.demo)
app.command("validate")(plan.validate)
app.command("plan")(plan.plan)
app.command("up")(up.up)
app.command("down")(control.down)
app.command("status")(status.status)
app.command("lag")(status.lag)
app.command("topics")(status.topics)
app.command("groups")(status.groups)
app.command("translate")(translate.translate)
app.command("compare")(compare.compare)
app.command("drift")(drift.drift)
app.command("failover")(failover.failover)
app.command("failback")(failover.failback)
app.command("takeover")(takeover.takeover)
app.command("handback")(takeover.handback)
app.command("verify")(verify.verify)
app.command("report")(report.report)
app.command("replicators")(status.replicators)
app.command("events")(status.events)
app.command("audit")(audit.audit)
app.command("gaps")(status.gaps)
app.command("backfill")(backfill.backfill)
app.command("resolve")(control.resolve)
app.command("scale")(control.scale)
app.command("set")(config.set_keys)
app.command("config")(config.config)
app.command("pause")(control.pause)
app.command("resume")(control.resume)
app.add_typer(local.clusters, name="clusters")
app.command("jars")(local.jars)
app.command("bench")(bench.bench)
app.command("chaos")(chaos.chaos)
app.command("version")(local.show_version)


def run() -> int:
    """Run the command line; the exit code, where SystemExit does not say it.

    Raises:
        KeyboardInterrupt: Ctrl-C, outside of a command.
    """
    open_streams()
    sys.unraisablehook = _raise_again
    try:
        app()
    except MirrorError as error:
        return _told(error)
    except Exception as error:  # noqa: BLE001 - a mistake of ours: the traceback, and no exit code that means an answer
        if _is_interrupted(error):
            return INTERRUPTED_CODE
        _say_traceback()
        return _FAILED_IN_THE_MIDDLE
    return 0


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: modules in C tell it as an error of theirs when they are being imported."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _raise_again(unraisable: Any) -> None:
    """Ctrl-C that came inside a callback, where nobody hears an exception, comes again outside of it."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
