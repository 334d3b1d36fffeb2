"""Every decoder of untrusted bytes: those of ``tests.unit.foreign_inputs``, and those for text that is no document.

A decoder takes any bytes and returns a value or raises its error; see ``Decoder``.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from gcushare.cards.c_library import decode_text
from gcushare.cards.pci import parse_pci_address
from gcushare.cards.worker.messages import REQUEST, EventAnswer, Opened, decode_answer
from gcushare.cluster.diagnosis.facts import parse_time
from gcushare.cluster.metrics_text import parse_figures
from gcushare.cluster.reader import parse_date
from gcushare.config_manager.host.files import FileState
from gcushare.config_manager.host.launch import ConfigTarget, scheduler_flags
from gcushare.config_manager.host.paths_and_record import Layout
from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.document import merged_config, new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import parse_image_version, parse_version
from gcushare.core.errors import ConfigError, GcushareError, Refused
from gcushare.core.quantities import parse_count, parse_quantity
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.kube.client import PAGE
from gcushare.kube.connection.credentials import client_context
from gcushare.kube.connection.kubeconfig import read_kubeconfig, resolve_context
from gcushare.kube.connection.watch_lines import watch_events
from gcushare.kube.errors import FailedRequest
from gcushare.runtime.http.answers import Rejection
from gcushare.runtime.http.scheduler_requests import find_head_end, read_head
from gcushare.runtime.settings.declare import Program, list_specs
from gcushare.runtime.settings.loading import Answered, load_settings
from gcushare.scheduler_extender.dashboard.feed import parse_mark
from gcushare.scheduler_extender.extender_settings import ExtenderSettings
from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import OVER_USE, note_since_s, over_use_text, over_used_cards
from gcushare.wire.contracts import CA, SERVER_CERT, SERVER_KEY
from gcushare.wire.documents.node_report import decode_node_reports
from gcushare.wire.dra.claim_names import parse_device_name, parse_template_name
from gcushare.wire.kubelet.device_ids import decode_device_id, decode_whole_card_id
from gcushare.wire.nodes import node_cards, parse_card_names
from gcushare.wire.objects import HEAD, POD
from tests.builders import present
from tests.unit.foreign_inputs import CARDS, DECODERS, OF_WORKER, Decoder, any_text, encoded, text_of

EXTENDER = ExtenderEntry(url="http://10.96.1.37:32766", options=ExtenderOptions(vendor="enflame"))
LAYOUT = Layout("/etc/kubernetes", "/etc/kubernetes/manifests/kube-scheduler.yaml")
UNIT_LAYOUT = Layout("/etc/kubernetes", "/etc/systemd/system/kube-scheduler.service", is_unit=True)
TARGET = ConfigTarget("config", "/etc/kubernetes/scheduler-gcushare.yaml", "0123456789ab")
MANIFESTS = tuple(
    Path(__file__).parent.parent.joinpath("unit", "manifests", name).read_bytes()
    for name in ("anchors-1.25.yaml", "flow-style-1.31.yaml", "compact-1.32.json", "two-containers-1.30.yaml")
)
NOW = datetime(2026, 11, 22, tzinfo=UTC)


@contextmanager
def _file_of(body: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(body)
        yield path


def _file(read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """A decoder that reads a file."""

    def decoder(body: bytes) -> object:
        with _file_of(body) as path:
            return read(path)

    return decoder


def _http_head(body: bytes) -> object:
    try:
        end = find_head_end(body)
        return None if end < 0 else read_head(body[:end])
    except Rejection as rejection:
        return rejection.status


def _kubeconfig(path: Path) -> object:
    config = read_kubeconfig([path])
    return resolve_context(config, None).cluster.value.server


def _scheduler_file(layout: Layout) -> Callable[[bytes], object]:
    """What the config manager does with the file that starts the scheduler: point it at our configuration, and back."""

    def decoder(body: bytes) -> object:
        found = layout.parse(FileState(body, 0, 0, 0))
        pointed = found.pointed_at(TARGET)
        assert pointed.points_at(TARGET)
        back = layout.parse(FileState(pointed.text.encode(), 0, 0, 0)).without_trace(frozenset({TARGET.path}), None)
        return found.flags, back.has_trace(frozenset({TARGET.path}))

    return decoder


def _scheduler_config(text: str) -> object:
    merged = merged_config(text, "f", EXTENDER)
    again = merged_config(merged.text, "f", EXTENDER)
    assert again.text == merged.text, "merging again changes nothing"
    return merged.text


def _scheduler_flags(text: str) -> object:
    return new_config(EXTENDER, parse_version("v1.36.0"), scheduler_flags(text.split("\n")))


def _watch(body: bytes) -> object:
    """A stream that comes in pieces, to the heads of the objects in it."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    async def heads() -> list[object]:
        return [HEAD.read(event.object) async for event in watch_events(pieces(), FailedRequest("GET /", False))]

    try:
        heads().send(None)
    except StopIteration as done:  # nothing in it waits
        return done.value
    raise AssertionError("a stream of bytes that are there is waited for")


def _page(body: bytes) -> object:
    return [(HEAD.read(each).metadata.uid, POD.read(each).spec.containers) for each in PAGE.read(body).entries]


PROGRAMS: tuple[Program[Any], ...] = (
    Program("gcushare-scheduler-extender", "", ExtenderSettings),
    Program("gcushare-device-plugin", "", PluginSettings),
)


def _environment(text: str) -> object:
    """Lines of ``NAME=value``, as of a container's environment."""
    environ = dict(line.partition("=")[::2] for line in text.split("\n"))
    return [load_settings(program, [], environ) for program in PROGRAMS]


def _command_line(text: str) -> object:
    try:
        return [load_settings(program, text.split("\n"), {}) for program in PROGRAMS]
    except Answered as answer:
        return answer.text


def _all_settings() -> bytes:
    """Every variable of the programs, with a value that is read."""
    specs = {spec.env: spec for program in PROGRAMS for spec in list_specs(program.settings) if spec.env}
    shown = {env: spec.parser.show(spec.default) for env, spec in specs.items() if spec.default is not None}
    return "\n".join(f"{env}={value}" for env, value in sorted(shown.items()) if "\n" not in value).encode()


def _cordoned(text: str) -> object:
    parse_card_names(text)
    return node_cards(ENFLAME, {ENFLAME.inventory_annotation: _INVENTORY, ENFLAME.cordon_annotation: text}, {})


_INVENTORY = encoded(CARDS).decode()


def _over_use(text: str) -> object:
    annotations: Mapping[str, str] = {OVER_USE: text}
    return over_use_text(annotations), over_used_cards(annotations), note_since_s(annotations, 0)


TERMS = Terms(("a.svc",), timedelta(days=365))


@cache
def _certificates() -> Mapping[str, bytes]:
    return present(next_issue({}, TERMS, NOW)).data


def _secret_part(key: str) -> Callable[[bytes], object]:
    """One part of the certificates' Secret; the other parts are valid."""

    def decoder(body: bytes) -> object:
        return next_issue({**_certificates(), key: body}, TERMS, NOW)

    return decoder


def _result(result_type: type[Any]) -> Callable[[bytes], object]:
    return lambda body: decode_answer(body, result_type)


OF_SCHEDULER_FILES = (ConfigError, Refused)
NONE = ()
"""Of decoders that raise nothing: what cannot be read is None, or as if it were not there."""

TEXT_DECODERS: dict[str, Decoder] = {
    "HTTP head": Decoder(_http_head, (b"POST /v1/filter HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",), NONE),
    "watch": Decoder(_watch, (), GcushareError),
    "list": Decoder(_page, ()),
    "device id": Decoder(any_text(decode_device_id), (b"000", b"0a~", b"zzz")),
    "whole card's id": Decoder(any_text(decode_whole_card_id), (b"card-0", b"card-15")),
    "claim's device": Decoder(any_text(parse_device_name), (), NONE),
    "claim template's name": Decoder(
        any_text(lambda text: parse_template_name(text, ENFLAME.claims.template_prefix)), (), NONE
    ),
    "quantity": Decoder(
        any_text(lambda text: (parse_quantity(text), parse_count(text))), (b"4", b"1Ki", b"12e2", b"2k")
    ),
    "cordon annotation": Decoder(any_text(_cordoned), (b"0, GCU-1",)),
    "over-use annotation, shown": Decoder(any_text(_over_use), (), NONE),
    "metrics": Decoder(text_of(parse_figures), ()),
    "scheduler's manifest": Decoder(_scheduler_file(LAYOUT), MANIFESTS, OF_SCHEDULER_FILES),
    "scheduler's unit": Decoder(_scheduler_file(UNIT_LAYOUT), (), OF_SCHEDULER_FILES),
    "scheduler's configuration, merged": Decoder(any_text(_scheduler_config), (), OF_SCHEDULER_FILES),
    "scheduler's flags": Decoder(
        any_text(_scheduler_flags), (b"--v=2\n--leader-elect=true\n--profiling\nfalse",), ConfigError
    ),
    "scheduler's version": Decoder(any_text(parse_version), (b"v1.36.0", b"Kubernetes v1.20.15-k3s1\n"), ConfigError),
    "scheduler's image": Decoder(
        any_text(parse_image_version), (b"registry.k8s.io/kube-scheduler:v1.30.1@sha256:0a",), ConfigError
    ),
    "kubeconfig file": Decoder(_file(_kubeconfig), (), ConfigError),
    "settings variables": Decoder(any_text(_environment), (_all_settings(),), ConfigError),
    # Messages about it go to the standard error alone, which writes what is no UTF-8 with backslashes.
    "command line": Decoder(text_of(_command_line), (b"--help", b"--log-level=debug\n--log-format\njson"), ConfigError),
    "worker's request": Decoder(REQUEST.read, (b'{"operation":"event","timeout_s":1.5}',)),
    "worker's opening": Decoder(_result(Opened), (b'{"result":{"library":"l","driver":"1.2"}}',), OF_WORKER),
    "worker's event": Decoder(_result(EventAnswer), (b'{"result":{"event":null}}',), OF_WORKER),
    "driver's text": Decoder(decode_text, (b"GCU-0\0\xff",), NONE),
    "PCI address": Decoder(any_text(parse_pci_address), (b"00000000:3B:00.0",), NONE),
    "Date header": Decoder(text_of(parse_date), (b"Sun, 22 Nov 2026 03:00:00 GMT",), NONE),
    "time of an object": Decoder(text_of(parse_time), (b"2026-11-22T03:00:00.123456Z",), NONE),
    "dashboard's mark": Decoder(any_text(parse_mark), (b"0123abcd.17",), NONE),
    "config manager's reports": Decoder(
        any_text(lambda text: decode_node_reports({"node.n": text})), (b'{"state": "applied"}',), NONE
    ),
    "certificate authority": Decoder(lambda body: client_context(body, "f"), (), ConfigError),
    "Secret's authorities": Decoder(_secret_part(CA), (), NONE),
    "Secret's certificate": Decoder(_secret_part(SERVER_CERT), (), NONE),
    "Secret's key": Decoder(
        _secret_part(SERVER_KEY), (b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----",), NONE
    ),
}
"""Words, lines and files that are no JSON document of ours."""

ALL_DECODERS = {**DECODERS, **TEXT_DECODERS}
