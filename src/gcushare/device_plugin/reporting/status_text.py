"""``--status``: the cards as ``gcushare cards -o wide`` draws them, then what the plugin says of itself."""

from __future__ import annotations

import asyncio
import shutil
import textwrap
from collections.abc import Iterator
from typing import TextIO

from gcushare.cluster.card_tables import view_lines
from gcushare.cluster.node_view import CardsView, view_status
from gcushare.cluster.plugin_status import fetch_status
from gcushare.core.over_use.tracking import PolledUse, describe_over_use
from gcushare.core.wording import index_text, printable, span
from gcushare.runtime.exit_codes import DONE, FAILED
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.wire.documents.plugin_status import IdleStatus, OverUseStatus, PluginStatus, PodOnNode

_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}


def print_status(settings: ServeSettings, stdout: TextIO) -> int:
    """Print the running plugin's status; the exit code is 1 if it names a problem, else 0.

    Raises:
        RetryableError: nothing answers at the port.
        RemoteContractError: what answers is no plugin.
    """
    url = f"{'https' if settings.tls_cert_file else 'http'}://{_host(settings)}:{settings.listen_port}"
    # Our own certificate is also what we show where clients need one.
    certificate, key = settings.tls_cert_file, settings.tls_key_file
    hint = "give the --listen-port that it runs with"
    status = asyncio.run(fetch_status(url, hint, trusts_any=True, cert_file=certificate, key_file=key))
    width = shutil.get_terminal_size().columns if stdout.isatty() else None
    stdout.write(render_status(status, origin=url, width=width))
    return FAILED if status.problems else DONE


def _host(settings: ServeSettings) -> str:
    address = settings.listen_address
    return _WILDCARDS.get(address, f"[{address}]" if ":" in address else address)


def render_status(status: PluginStatus, *, origin: str, width: int | None) -> str:
    """Draw a status for a terminal of ``width`` columns; None is a pipe. ``origin`` is the address that was asked."""
    view = CardsView(nodes=(view_status(status, origin, {}),), failures={})
    lines = [line.plain for line in view_lines(view, width, is_wide=True)]
    lines.append("")
    for line in _plugin_lines(status):
        lines += [line] if width is None else textwrap.wrap(line, width, subsequent_indent="  ")
    return "".join(f"{printable(line).rstrip()}\n" for line in lines)


def _plugin_lines(status: PluginStatus) -> Iterator[str]:
    age = "never" if status.watch_age_seconds is None else f"{status.watch_age_seconds:g}s ago"
    yield (
        f"Registrations {status.registrations}, corrections {status.corrections}, unconfirmed allocations "
        f"{status.unconfirmed_allocations}, API server heard {age}"
    )
    if status.foreign_containers:
        yield f"Containers with device ids of another plugin: {status.foreign_containers}; see this node's events"
    yield from (line for pod in status.pods if (line := _record_line(pod)))
    if status.pod_use:
        yield f"Use per pod is not known: {status.pod_use}"
    if status.over_use is not None:
        yield from _over_use_lines(status.over_use, status.pods)
    if status.idle is not None:
        yield from _idle_lines(status.idle, status.pods)
    yield f"Problems: {len(status.problems)}, see above" if status.problems else "No problem"


def _record_line(pod: PodOnNode) -> str:
    """What a pod's record says if that is not what the kubelet gave it; "" if both agree."""
    recorded = tuple(pod.recorded_cards or ())
    if not pod.held_by_card or (pod.assigned and set(recorded) == set(pod.held_by_card)):
        return ""
    record = f"its record names card {index_text(recorded)}" if recorded else "it has no record"
    marked = "" if pod.assigned else ", not marked assigned yet"
    return f"Pod {pod.pod} holds card {index_text(sorted(pod.held_by_card))}: {record}{marked}"


def _over_use_lines(found: OverUseStatus, pods: tuple[PodOnNode, ...]) -> Iterator[str]:
    dry_run = " (dry run)" if found.dry_run else ""
    over = [pod for pod in pods if pod.over_use]
    yield f"Pods over their grant: {len(over)}; action {found.action}{dry_run}"
    for pod in over:
        reason = found.passed_over.get(pod.pod)
        for index, each in sorted((pod.over_use or {}).items()):
            use = describe_over_use(
                index, PolledUse(each.used_bytes, each.granted_bytes, by_driver=index in pod.used_by_driver)
            )
            yield f"  {pod.pod}: {use}, since {each.since}{f'; not evicted: {reason}' if reason else ''}"
    if found.last:
        yield f"  last: {found.last}"


def _idle_lines(found: IdleStatus, pods: tuple[PodOnNode, ...]) -> Iterator[str]:
    idle = {pod.pod: pod.idle_since for pod in pods if pod.idle_since}
    yield f"Pods that have not used their cards for {span(found.after_seconds)}: {len(idle)}; action {found.action}"
    for name, since in idle.items():
        yield f"  {name}: idle since {since}: {found.outlook.get(name, '')}"
    for name, why in found.doubts.items():
        yield f"  {name}: counts as in use: {why}"
    if found.last:
        yield f"  last: {found.last}"
