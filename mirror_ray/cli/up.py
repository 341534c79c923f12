"""The command up: starts or updates a system."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mirror_ray import runtime
from mirror_ray.cli import foreground
from mirror_ray.cli.config import say_changed
from mirror_ray.cli.control import confirm
from mirror_ray.cli.live_view import LiveView
from mirror_ray.cli.options import (
    DEFAULT_NAME,
    AddressOption,
    ConfigArgument,
    NameOption,
    SecondsOption,
    name_option,
    possible_replicators,
)
from mirror_ray.cli.output import err, say
from mirror_ray.cli.progress import CatchUpVerdict
from mirror_ray.mirror import Mirror
from mirror_ray.model.errors import ClusterUnreachableError, ConfigError, MirrorError, NotRunningError

if TYPE_CHECKING:
    from mirror_ray.config.settings import MirrorSettings


def up(
    config: ConfigArgument,
    *,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return at once; `down` ends it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would change, and change nothing.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --dry-run: exit 1 where it would change something.")
    ] = False,
    until_caught_up: Annotated[
        bool,
        typer.Option(
            "--until-caught-up", help="End, with exit 0, when every flow's lag is 0 and its groups are synced."
        ),
    ] = False,
    for_s: SecondsOption = None,
    replicators: Annotated[
        int | None, typer.Option(metavar="N", min=1, callback=possible_replicators, help="How many replicators.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Change a running system without asking.")] = False,
    address: AddressOption = None,
    name: NameOption = DEFAULT_NAME,
) -> None:
    """Start the flows of CONFIG, or update a running system to them; in the foreground unless --detach.

    What would change in a running system is listed key by key and has to be confirmed; without a terminal say --yes.
    Nothing else of it stops. Other clusters than those that a flow has begun with are refused: give them a system
    beside this one by --name, or stop this one first.

    Ctrl-C drains and stops what this command has started. A system that ran before goes on; `down` stops it.
    """
    if detach and (until_caught_up or for_s is not None):
        raise ConfigError("--detach returns at once: leave out --until-caught-up and --for, or leave out --detach")
    if exit_code and not dry_run:
        raise ConfigError("--exit-code is for --dry-run: give both, or leave it out")
    from mirror_ray.config.load import load_settings

    loaded = load_settings(config)
    settings = loaded.settings
    for note in loaded.notes:
        if note.kind == "secret":
            say(f"note: {note}", "yellow")
    if dry_run:
        check_clusters(settings)
        differs = _show_difference(settings, name, address, replicators)
        raise typer.Exit(1 if exit_code and differs else 0)
    agree = partial(_agree, name, settings, replicators, yes=yes)
    starting = runtime.start(
        settings, name, address, replicators=replicators, detach=detach, agree=agree, check=begin_check(settings)
    )
    with foreground.interruptible(), starting as started:
        _announce(settings, name, started)
        if detach:
            look, end = (f"`mirror-ray {command}{name_option(name)}`" for command in ("status", "down"))
            say(f"{name} runs{_until(started)}: look with {look}, end it with {end}")
            return
        _run(started, until_caught_up=until_caught_up, for_s=for_s)


def begin_check(settings: MirrorSettings) -> Callable[[], None]:
    """Begin ``check_clusters`` beside what this process does, as connecting to Ray; what is returned waits for its end.

    That raises as ``check_clusters`` does; this raises where no flow is enabled.
    """
    _used_clusters(settings)
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="check clusters")
    checked = pool.submit(check_clusters, settings)
    pool.shutdown(wait=False)
    return checked.result


def check_clusters(settings: MirrorSettings) -> None:
    """Check that every cluster of an enabled flow answers; one that fails later is shown by `status` alone.

    Raises:
        ConfigError: No flow is enabled.
        ClusterUnreachableError: One sentence for each cluster that does not answer.
    """
    from mirror_ray.kafka.admin import ClusterAdmin

    used = _used_clusters(settings)

    def problem(alias: str) -> str | None:
        admin = ClusterAdmin(settings.clusters[alias], "mirror-ray-up")
        try:
            admin.ping()
        except ClusterUnreachableError as error:
            return str(error)
        finally:
            admin.close()
        return None

    with ThreadPoolExecutor(max_workers=len(used)) as pool:
        problems = [text for text in pool.map(problem, sorted(used)) if text is not None]
    if problems:
        raise ClusterUnreachableError("\n".join(problems))


def _used_clusters(settings: MirrorSettings) -> set[str]:
    used = {alias for flow in settings.flows if flow.enabled for alias in (flow.name.source, flow.name.target)}
    if not used:
        raise ConfigError("no flow is enabled: set A->B.enabled = true, with the aliases of your clusters")
    return used


def _agree(
    name: str, settings: MirrorSettings, replicators: int | None, system: Mirror, *, yes: bool
) -> runtime.AgreedChanges:
    found = system.preview(settings, replicators)
    if not (found.nothing or yes):
        say_changed(f"{name} runs already, and would be", found)
        confirm(f"Change {name} so?", yes=False)
    return runtime.AgreedChanges(changes=found, onto=None if yes else found.onto)


def _announce(settings: MirrorSettings, name: str, started: runtime.StartedSystem) -> None:
    if started.changes is None:
        flows = ", ".join(str(flow.name) for flow in settings.flows if flow.enabled)
        say(f"{name}: started {flows}")
    else:
        say_changed(name, started.changes)
    if started.ends_with is not None:
        say(
            f"{name} was started by {started.ends_with}, and ends when that ends; for one that stays, end that one and "
            "give this command with --detach",
            "yellow",
        )


def _show_difference(settings: MirrorSettings, name: str, address: str | None, replicators: int | None) -> bool:
    """Say what would change; returns whether anything would."""
    from mirror_ray.config.difference import changed

    try:
        with runtime.attach(name, address) as system:
            found = system.preview(settings, replicators)
    except NotRunningError:
        found = changed(None, settings)
    say_changed(f"{name} would be", found)
    return not found.nothing


def _run(started: runtime.StartedSystem, *, until_caught_up: bool, for_s: float | None) -> None:
    system = started.system
    try:
        verdict = foreground.follow(system, LiveView(err()), until_caught_up=until_caught_up, for_s=for_s)
        if verdict is not None and verdict.state == "caught_up" and not system.settle_groups():
            look = f"`mirror-ray groups{name_option(system.name)}`"
            say(f"consumer groups could not be synced in time: {look} says why", "red")
    except NotRunningError:
        say(f"{system.name} has been stopped")
        return
    except KeyboardInterrupt:
        verdict = None
    if started.changes is not None or started.ends_with is not None:
        say(f"{system.name} goes on{_until(started)}; end it with `mirror-ray down{name_option(system.name)}`")
    else:
        foreground.drain(system)
    _report(verdict)


def _until(started: runtime.StartedSystem) -> str:
    return f" until {started.ends_with} ends" if started.ends_with is not None else ""


def _report(verdict: CatchUpVerdict | None) -> None:
    if verdict is None:
        return
    if verdict.state == "blocked":
        raise MirrorError("\n".join(["not everything could be copied:", *verdict.blockers]))
    if verdict.state == "caught_up":
        say("caught up: every partition's lag is 0", "green")
    else:
        say("not caught up when the time was over", "red")
        raise typer.Exit(1)
