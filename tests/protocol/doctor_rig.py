"""A small healthy cluster on the API server double, with programs that answer what a test wants them to."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import msgspec
from aiohttp import web

from gcushare._version import __version__
from gcushare.cli.subcommands import SUBCOMMANDS
from gcushare.core.cards import InventoryCard
from gcushare.kube.clock import rfc3339_micro
from gcushare.runtime.entry import ProcessContext
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import PodRecord
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, Deletion, RbacAuthorizer, User
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.api_objects import an_object, grant
from tests.builders import cards
from tests.extender_objects import inventory_text, pod_document
from tests.protocol.commands import Ran, run_command
from tests.unit import card_views

NODE, SYSTEM = "n1", "kube-system"
EXTENDER, PLUGIN, SCHEDULER = "gcushare-scheduler-extender-1", "gcushare-device-plugin-n1", "kube-scheduler-master"
SERVICE = "gcushare-scheduler-extender"
LABEL = {"enflame.com/gcushare": "true"}
CONFIG = "/etc/kubernetes/scheduler-extender-config-v1.23+.yaml"
READY = [{"type": "Ready", "status": "True"}]
Change = Callable[[JsonObject], object]


class Responder:
    """A program's HTTP side: what it answers by path."""

    def __init__(self, pages: Mapping[str, str]) -> None:
        self.pages = dict(pages)
        self._runner = web.ServerRunner(web.Server(self._answer))
        self.port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        text = self.pages.get(request.path)
        return web.Response(text=text or "no such page\n", status=404 if text is None else 200)


class Answer(Ran):
    """What a command found."""

    @property
    def kinds(self) -> set[str]:
        """Severity and id of every finding."""
        return {f"{each['severity']} {each['id']}" for each in self.document["findings"]}

    def finding(self, kind: str) -> Any:
        found = [each for each in self.document["findings"] if each["id"] == kind]
        assert found, self.out
        return found[0]

    def assert_only(self, kind: str, words: str) -> None:
        """Check that nothing but this was found, with these words and something to do, and that the exit tells."""
        assert self.kinds == {kind}
        severity, id_ = kind.split()
        assert words in self.finding(id_)["problem"]
        assert self.finding(id_)["remedy"]
        assert self.code == {"error": 4, "warning": 3, "info": 0}[severity]


def metrics(*, leader: int = 1, filters: int = 5, started: float = 0.0) -> str:
    return (
        "# TYPE gcushare_leader gauge\n"
        f"gcushare_leader {leader}\n"
        f'gcushare_ledger_drifts_total{{vendor="enflame"}} 0\n'
        f'gcushare_ledger_drifts_created{{vendor="enflame"}} {started}\n'
        f'gcushare_extender_request_seconds_count{{vendor="enflame",verb="filter"}} {filters}\n'
    )


def status(**parts: Any) -> str:
    """A plugin's /status, on which nothing is wrong but for ``parts``."""
    quiet = card_views.status(version=__version__, node=NODE, corrections=0)
    return json.dumps(msgspec.to_builtins(quiet) | parts)


def node_object(name: str = NODE, offered: Sequence[InventoryCard] | None = None, **labels: str) -> JsonObject:
    shown = cards(16, 16) if offered is None else offered
    amounts = {ENFLAME.memory_resource: str(sum(card.units for card in shown)), ENFLAME.count_resource: str(len(shown))}
    metadata = {"labels": labels or LABEL, "annotations": {ENFLAME.inventory_annotation: inventory_text(shown)}}
    status = {
        "capacity": {**amounts, "cpu": "64"},
        "allocatable": {**amounts, "cpu": "64"},
        "conditions": READY,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "nodeInfo": {"kubeletVersion": "v1.36.2"},
    }
    return an_object("Node", name, metadata=metadata, status=status)


@dataclass
class DoctorRig:
    """``api`` holds the cluster; ``plugin`` and ``extender`` answer for their pods; ``run`` runs the command."""

    folder: Path
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    plugin: Responder = field(default_factory=lambda: Responder({"/status": status()}))
    extender: Responder = field(
        default_factory=lambda: Responder({"/version": f"v{__version__}\n", "/metrics": metrics()})
    )
    version: str = "v1.36.2"
    past_s: float = 0.0

    async def __aenter__(self) -> Self:
        config = ApiServerConfig(runs_controllers=False, version=self.version, clock=lambda: time.time() - self.past_s)
        self.api = await self.stack.enter_async_context(ApiServer(config))
        await self.stack.enter_async_context(self.plugin)
        await self.stack.enter_async_context(self.extender)
        self.kubeconfig = self.api.kubeconfig(self.folder / "kubeconfig")
        self._build()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stack.aclose()

    # The cluster

    def put(self, obj: JsonObject, *, age_s: float = 0.0) -> JsonObject:
        """Create an object, perhaps some time ago."""
        self.past_s = age_s
        made = self.api.registry.put(obj)
        self.past_s = 0.0
        return made

    def put_pod(self, obj: JsonObject, *, age_s: float = 0.0, **state: Any) -> JsonObject:
        """Create a pod in a state: bound where the object says so, Running and Ready unless asked otherwise."""
        wanted = {key: value for key, value in obj.items() if key != "status"}
        wanted["metadata"] = {k: v for k, v in obj["metadata"].items() if k not in ("uid", "creationTimestamp")}
        made = self.put(wanted, age_s=age_s)
        shown = {"phase": "Running", "conditions": READY, "podIP": "127.0.0.1", **state}
        self.change(
            "pods", made["metadata"]["name"], lambda pod: pod.update(status=shown), made["metadata"]["namespace"]
        )
        return made

    def put_asking(self, name: str, units: int | None, *, age_s: float = 600.0, **options: Any) -> JsonObject:
        """Create a pod that asks for memory, or for ``whole`` cards, some time ago."""
        phase = "Running" if options.get("node") else "Pending"
        return self.put_pod(pod_document(name, units, **options), age_s=age_s, phase=phase, conditions=[])

    def set_status(self, **parts: Any) -> None:
        """Have the plugin answer that nothing is wrong but for ``parts``."""
        self.plugin.pages["/status"] = status(**parts)

    def mount_certificate(self, pem: bytes) -> None:
        """Give the extender's pod a TLS Secret of its own."""
        self.put(tls_secret("extender-tls", pem))
        volume = {"name": "tls", "secret": {"secretName": "extender-tls"}}
        self.change("pods", EXTENDER, lambda pod: pod["spec"].update(volumes=[volume]), SYSTEM)

    def change(self, kind: str, name: str, change: Change, namespace: str = "") -> None:
        """Change a stored object in place; ``kind`` as in ``deployments.apps``."""

        def mutate(obj: JsonObject) -> JsonObject:
            change(obj)
            return obj

        self.api.registry.rewrite(BY_NAME[kind], Key(namespace, name), mutate)

    def change_node(self, change: Change, name: str = NODE) -> None:
        self.change("nodes", name, change)

    def set_units(self, amount: str | None, part: str = "capacity") -> None:
        def change(node: JsonObject) -> None:
            node["status"][part].pop(ENFLAME.memory_resource, None)
            if amount is not None:
                node["status"][part][ENFLAME.memory_resource] = amount

        self.change_node(change)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        self.api.registry.delete(BY_NAME[kind], Key(namespace, name), Deletion(grace_s=0))

    # The healthy cluster

    def _build(self) -> None:
        self.put(node_object())
        self.put(lease(SYSTEM, SERVICE, EXTENDER))
        self.put_pod(program_pod(PLUGIN, "gcushare-device-plugin", self.plugin.port, "--vendor=enflame", node=NODE))
        self.put_extender(EXTENDER, self.extender.port)
        self.put_pod(program_pod(SCHEDULER, "kube-scheduler", 10259, f"--config={CONFIG}", node="master"))
        self.put(service())
        self.put(endpoints(self.extender.port))
        self.put(policy())
        self.put(policy_binding())

    def put_extender(self, name: str, port: int, **spec: Any) -> None:
        self.put_pod(program_pod(name, "gcushare-scheduler-extender", port, "--leader-elect", node="master", **spec))

    # The commands

    async def examine(self, *argv: str, user: User | None = None) -> Answer:
        """Run ``gcushare doctor`` for programs."""
        return await self.run("doctor", "-o", "json", *argv, user=user)

    async def run(self, command: str, *argv: str, user: User | None = None) -> Answer:
        """Run a command of ``gcushare`` against this cluster."""
        return await self.call(SUBCOMMANDS[command].run, argv, user)

    async def call(
        self,
        main: Callable[[ProcessContext], int],
        argv: Sequence[str],
        user: User | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Answer:
        path = self.kubeconfig if user is None else self.api.kubeconfig(self.folder / user.name, user)
        given = {"KUBECONFIG": str(path), "HOME": str(self.folder), **(environ or {})}
        return Answer(*await run_command(main, *argv, environ=given))


def program_pod(
    name: str, program: str, port: int, *flags: str, node: str, page_port: int = 0, **spec: Any
) -> JsonObject:
    """A pod as the charts make it; without ``page_port`` one server stands for both ports of the extender."""
    ports = [{"name": "status", "containerPort": port}, {"name": "page", "containerPort": page_port or port}]
    image = {"name": program, "image": f"registry/enflame:{__version__}"}
    container = {**image, "command": [program], "args": [*flags], "ports": ports}
    labels = {"app.kubernetes.io/part-of": "gcushare"}
    spec = {"nodeName": node, "containers": [container], **spec}
    return an_object("Pod", name, SYSTEM, metadata={"labels": labels}, spec=spec)


def lease(namespace: str, name: str, holder: str) -> JsonObject:
    renewed = rfc3339_micro(datetime.now(UTC))
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": renewed}
    return an_object("Lease", name, namespace, spec=spec)


def service(address: str = "10.96.1.37") -> JsonObject:
    spec = {"clusterIP": address, "ports": [{"name": "http", "port": 32766}]}
    return an_object("Service", SERVICE, SYSTEM, spec=spec)


def endpoints(port: int) -> JsonObject:
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"name": "http", "port": port}]}
    return an_object("Endpoints", SERVICE, SYSTEM, subsets=[subset])


def policy(text: str = ENFLAME.record.card_index) -> JsonObject:
    spec = {"validations": [{"expression": f"!('{text}' in object.metadata.annotations)"}]}
    return an_object("ValidatingAdmissionPolicy", "records", spec=spec)


def policy_binding(action: str = "Deny") -> JsonObject:
    spec = {"policyName": "records", "validationActions": [action]}
    return an_object("ValidatingAdmissionPolicyBinding", "records", spec=spec)


def config_map(name: str, **data: str) -> JsonObject:
    named = {key.replace("__", "."): value for key, value in data.items()}
    return an_object("ConfigMap", name, SYSTEM, data=named)


def tls_secret(name: str, certificate: bytes) -> JsonObject:
    data = {"tls.crt": base64.b64encode(certificate).decode(), "tls.key": base64.b64encode(b"very secret").decode()}
    return an_object("Secret", name, SYSTEM, type="kubernetes.io/tls", data=data)


def record(card: int, units: int, *, assigned: bool = True, age_s: float = 600.0) -> PodRecord:
    when = time.time_ns() - int(age_s * 1e9)
    return PodRecord(card_indexes=(card,), card_units=16, pod_units=units, assigned=assigned, assign_time_ns=when)


ALL_RIGHTS = (
    ("list", "nodes", ""),
    ("list", "pods", ""),
    ("get", "pods/proxy", ""),
    ("get", "services/proxy", ""),
    ("get", "services", ""),
    ("get", "configmaps", ""),
    ("get", "leases", "coordination.k8s.io"),
    ("list", "validatingadmissionpolicies", "admissionregistration.k8s.io"),
    ("list", "validatingadmissionpolicybindings", "admissionregistration.k8s.io"),
    ("get", "secrets", ""),
    ("list", "resourceslices", "resource.k8s.io"),
    ("get", "namespaces", ""),
)


LOOKER = User("looker", ("system:authenticated",))


def allow(rig: DoctorRig, *rights: tuple[str, str, str]) -> None:
    """Give the user these rights, and no others."""
    rules = [{"apiGroups": [group], "resources": [resource], "verbs": [verb]} for verb, resource, group in rights]
    grant(rig.api, {"kind": "User", "name": LOOKER.name}, rules, "looker")
    rig.api.authorizer = RbacAuthorizer(rig.api.store)


async def examine_with(rig: DoctorRig, *rights: tuple[str, str, str]) -> Answer:
    allow(rig, *rights)
    return await rig.examine(user=LOOKER)
