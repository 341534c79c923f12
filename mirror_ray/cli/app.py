"""The command line: its commands, imported when they are given, and its errors."""

from __future__ import annotations

import _thread
import logging
import sys
import traceback
from collections import UserDict
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

import mirror_ray
from mirror_ray import runtime
from mirror_ray.cli import INTERRUPTED_CODE
from mirror_ray.cli.output import say
from mirror_ray.cli.printable import PrintableFormatter, printable
from mirror_ray.cli.streams import open_streams
from mirror_ray.model.errors import MirrorError
from mirror_ray.writing import os_error_text

_FAILED_IN_THE_MIDDLE = 4
#: Errors of the network, which are reported in sentences where they occur.
_NOT_OF_FILES = (ConnectionError, TimeoutError)


#: Each command, in the order of ``--help``, and what it is made of; its module is imported when it is given.
_COMMANDS: Final = {
    "demo": "demo.demo",
    "validate": "plan.validate",
    "plan": "plan.plan",
    "up": "up.up",
    "down": "control.down",
    "status": "status.status",
    "lag": "status.lag",
    "topics": "status.topics",
    "groups": "status.groups",
    "schemas": "schemas.schemas",
    "translate": "translate.translate",
    "compare": "compare.compare",
    "drift": "drift.drift",
    "failover": "failover.failover",
    "failback": "failover.failback",
    "takeover": "takeover.takeover",
    "handback": "takeover.handback",
    "verify": "verify.verify",
    "report": "report.report",
    "replicators": "status.replicators",
    "events": "status.events",
    "audit": "audit.audit",
    "gaps": "status.gaps",
    "backfill": "backfill.backfill",
    "resolve": "control.resolve",
    "scale": "control.scale",
    "set": "config.set_keys",
    "config": "config.config",
    "pause": "control.pause",
    "resume": "control.resume",
    "jars": "local.jars",
    "bench": "bench.bench",
    "chaos": "chaos.chaos",
    "version": "local.show_version",
    "clusters": "local.clusters",
}


class _LateCommands(UserDict[str, Any]):
    """Commands by name, each made when it is first looked up."""

    def __getitem__(self, name: str) -> Any:
        """The command."""
        if self.data[name] is None:
            self.data[name] = _load(name)
        return self.data[name]


class _Commands(TyperGroup):
    """Ends a command that raises a MirrorError with its text and its exit code; ``--debug`` shows the traceback too."""

    def __init__(self, **options: Any) -> None:
        """``options``: Typer's."""
        super().__init__(**options)
        self.commands = _LateCommands(dict.fromkeys(_COMMANDS) | dict(self.commands))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (MirrorError, OSError) as error:
            if ctx.params.get("debug"):
                _say_traceback()
            elif isinstance(error, _NOT_OF_FILES):
                raise
            raise typer.Exit(_report(error)) from error


def _load(name: str) -> Any:
    module, _, attribute = _COMMANDS[name].partition(".")
    found = getattr(import_module(f"mirror_ray.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        single = typer.Typer(add_completion=False)
        single.command(name)(found)
        found = single
    command = typer.main.get_command(found)
    command.name = name
    return command


def _report(error: MirrorError | OSError) -> int:
    """Print what is wrong, and return the exit code."""
    if isinstance(error, OSError):
        say(f"error: {os_error_text(error)}", "red")
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


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"mirror-ray {mirror_ray.__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    debug: Annotated[bool, typer.Option("-v", "--debug", help="Show tracebacks and the log.")] = False,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter(logging.BASIC_FORMAT))
    logging.basicConfig(level=logging.DEBUG if debug else logging.ERROR, handlers=[handler])


def run() -> int:
    """Run the command line; the exit code, where SystemExit does not say it.

    Raises:
        KeyboardInterrupt: Ctrl-C, outside of a command.
    """
    open_streams()
    runtime.process_is_ours = True
    sys.unraisablehook = _raise_again
    try:
        app()
    except MirrorError as error:
        return _report(error)
    except Exception as error:  # noqa: BLE001 - a mistake of ours: the traceback, and no exit code that means an answer
        if _is_interrupted(error):
            return INTERRUPTED_CODE
        _say_traceback()
        return _FAILED_IN_THE_MIDDLE
    return 0


def _is_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: modules in C raise an error of theirs instead when they are being imported."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _raise_again(unraisable: Any) -> None:
    """Ctrl-C that came inside a callback, where an exception is dropped, comes again outside of it."""
    if unraisable.exc_type is KeyboardInterrupt:
        _thread.interrupt_main()
    else:
        sys.__unraisablehook__(unraisable)
