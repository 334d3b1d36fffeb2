"""A control plane of real programs on loopback: etcd, kube-apiserver and, when asked for, kube-scheduler.

No controller manager: tests create Nodes and Pods themselves. So two admission plugins that need controllers are off:
ServiceAccount (no one makes the default account) and TaintNodesByCondition (no one would take the taint off again).
"""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import aiohttp

from gcushare.config_manager.host.launch import scheduler_flags
from gcushare.config_manager.scheduler_config.document import ConfigDocument, new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import ConfigFormat, parse_version
from gcushare.core.errors import GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare.kube.connection.transport import Limits
from gcushare.kube.resources import NAMESPACES
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from gcushare_playground.processes import Child, Command
from tests.e2e.assets import need_binaries
from tests.e2e.waiting import until
from tests.protocol.runtime_certificates import Authority

_ETCD_SERVING = re.compile(r"serv\S+ .*client.*\"address\":\"(127\.0\.0\.1:\d+)\"")
_SECURE = re.compile(r"Serving securely on (\S+)")

_FAST = ("--kube-api-qps=5000", "--kube-api-burst=5000")
_SHORT_WAITS = "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 2\n"
"""A pod that did not fit is looked at again soon; the defaults are 1 and 10."""

ADMIN = "admin"
SCHEDULER = "system:kube-scheduler"
NODE = "node-1"
"""The one node that may be real: its kubelet has a token of its own."""
NODE_USER = f"system:node:{NODE}"


@dataclass(frozen=True, slots=True)
class OlderScheduler:
    """A kube-scheduler of another release than the API server's, and the kubeconfig of a server that it understands."""

    binary: Path
    version: str
    kubeconfig: Path


class ReservedPort:
    """A free port of loopback that stays ours: the program that gets it shares it with our silent socket."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


PATIENT = Limits(request_s=60.0, connections=64)
"""The tests' own clients wait longer than a program may: kube-apiserver shares its cores with other work."""


class ControlPlane:
    """One control plane; ``async with ControlPlane()`` starts etcd and kube-apiserver and ends everything.

    ``feature_gates`` and ``runtime_config`` are kube-apiserver's flags; kube-scheduler gets the gates too.
    """

    def __init__(self, *, feature_gates: str = "", runtime_config: str = "") -> None:
        self._gates = (f"--feature-gates={feature_gates}",) if feature_gates else ()
        self._apis = (f"--runtime-config={runtime_config}",) if runtime_config else ()
        self.binaries = need_binaries("etcd", "kube-apiserver")
        self.root = Path(tempfile.mkdtemp(prefix="gcushare-e2e-"))
        self.logs = self.root / "logs"
        authority = Authority("gcushare e2e", timedelta(days=365))
        self.authority = self.root / "ca.crt"
        self.authority.write_bytes(authority.cert_pem)
        self._own_tls = authority.issue("kube-apiserver").write(self.root, "apiserver")
        self._accounts_tls = authority.issue("accounts").write(self.root, "accounts")
        self.children: dict[str, Child] = {}
        self.tokens: dict[str, tuple[str, str]] = {ADMIN: ("admin-token", "system:masters")}
        self.client: KubeClient
        self.http: aiohttp.ClientSession
        self._port = ReservedPort()
        self._scheduler_port = ReservedPort()
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port.number}"

    @property
    def port(self) -> int:
        """The API server's."""
        return self._port.number

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.kubeconfig_of(ADMIN)

    async def __aenter__(self) -> Self:
        try:
            await self.start_etcd()
            self._add_identity(SCHEDULER, "")
            self._add_identity(NODE_USER, "system:nodes")
            self.write_tokens()
            await self.start_api_server()
            config = find_api_server(str(self.kubeconfig))
            client = KubeClient(config, program="gcushare-e2e", limits=PATIENT)
            self.client = await self._stack.enter_async_context(client)
            self.http = await self._stack.enter_async_context(self._open_http())
            await self.wait_ready()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """End every process, last started first, and remove the files."""
        try:
            await self._stack.aclose()
            for child in reversed(self.children.values()):
                if child.is_running:
                    await child.stop(grace_s=5.0)
        finally:
            self._port.close()
            self._scheduler_port.close()
            shutil.rmtree(self.root, ignore_errors=True)

    async def start(self, command: Command, *, deadline_s: float = 180.0) -> str:
        """Start a process of this cluster, or the same one again; returns what its ready line carries."""
        child = self.children[command.name] = Child(command)
        return await child.start(deadline_s=deadline_s)

    def command(
        self, name: str, *arguments: str, ready: re.Pattern[str], environ: Mapping[str, str] | None = None
    ) -> Command:
        """A command whose log is kept with the others'."""
        return Command(name=name, arguments=arguments, log_dir=self.logs, environ=environ or {}, ready=ready)

    def describe(self) -> str:
        """Every process's last lines; etcd's are only of interest when it ended."""
        shown = [child for name, child in self.children.items() if name != "etcd" or not child.is_running]
        return "\n".join(child.describe_tail() for child in shown)

    def kubeconfig_of(self, user: str) -> Path:
        """Write the kubeconfig of one of ``tokens``' users; the same file every time."""
        path = self.root / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            token = self.tokens[user][0]
            write_kubeconfig(path, self.url, token=token, authority=self.authority, namespace="default")
        return path

    def write_tokens(self) -> None:
        """Write who may come with which token; kube-apiserver reads it once, when it starts."""
        lines = [f'{token},{user},{user},"{groups}"\n' for user, (token, groups) in self.tokens.items()]
        (self.root / "tokens.csv").write_text("".join(lines))

    def _open_http(self) -> aiohttp.ClientSession:
        """Open a session with which tests send what our client never would; it speaks as the administrator."""
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=self.authority), limit=64)
        headers = {"Authorization": f"Bearer {self.tokens[ADMIN][0]}"}
        return aiohttp.ClientSession(connector=connector, headers=headers)

    def _add_identity(self, user: str, groups: str) -> None:
        self.tokens[user] = (f"token-of-{user.replace(':', '-')}", groups)

    async def start_etcd(self) -> None:
        """Start etcd, or start it again on another port and the same data."""
        self.etcd_address = await self.start(
            self.command(
                "etcd",
                str(self.binaries["etcd"]),
                *("--data-dir", str(self.root / "etcd"), "--unsafe-no-fsync", "--log-level", "info"),
                *("--listen-client-urls", "http://127.0.0.1:0", "--listen-peer-urls", "http://127.0.0.1:0"),
                ready=_ETCD_SERVING,
                # Flags of the same meaning exist, but must name the addresses listened on, which are not known yet.
                environ={
                    "ETCD_ADVERTISE_CLIENT_URLS": "http://127.0.0.1:0",
                    "ETCD_INITIAL_ADVERTISE_PEER_URLS": "http://127.0.0.1:0",
                    "ETCD_INITIAL_CLUSTER": "default=http://127.0.0.1:0",
                },
            )
        )

    async def start_api_server(self) -> None:
        """Start kube-apiserver, or start it again on its port."""
        await self.start(
            self.command(
                "kube-apiserver",
                str(self.binaries["kube-apiserver"]),
                *(f"--etcd-servers=http://{self.etcd_address}", "--endpoint-reconciler-type=none"),
                *("--bind-address=127.0.0.1", f"--secure-port={self._port.number}", "--permit-port-sharing=true"),
                *("--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.96.0.0/16"),
                *(f"--tls-cert-file={self._own_tls[0]}", f"--tls-private-key-file={self._own_tls[1]}"),
                f"--token-auth-file={self.root / 'tokens.csv'}",
                f"--service-account-signing-key-file={self._accounts_tls[1]}",
                f"--service-account-key-file={self._accounts_tls[0]}",
                "--service-account-issuer=https://kubernetes.default.svc",
                *("--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"),
                *("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition", "--allow-privileged=true"),
                *(f"--cert-dir={self.root / 'apiserver'}", *self._gates, *self._apis),
                ready=_SECURE,
            )
        )

    async def wait_ready(self, *, deadline_s: float = 180.0) -> None:
        """Wait until the API server has finished starting: /readyz, and the namespace that pods go to."""
        await until(self._problem, "kube-apiserver is ready", deadline_s=deadline_s)

    async def _problem(self) -> str:
        try:
            async with self.http.get(f"{self.url}/readyz") as answer:
                if answer.status != 200:
                    return await answer.text()
            await self.client.get(NAMESPACES, "default")
        except (GcushareError, aiohttp.ClientError) as error:
            return str(error) or repr(error)
        return ""

    async def start_scheduler(
        self,
        extender: ExtenderEntry | ConfigDocument | None,
        *,
        name: str = "kube-scheduler",
        older: OlderScheduler | None = None,
    ) -> None:
        """Start kube-scheduler, calling ``extender`` as the config manager, or a document, would have it do.

        Its own limit of 50 requests a second is raised: the figures are about what an extender adds, not about that.
        """
        binary = older.binary if older else need_binaries("kube-scheduler")["kube-scheduler"]
        kubeconfig = older.kubeconfig if older else self.kubeconfig_of(SCHEDULER)
        arguments = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", *_FAST, *(() if older else self._gates)]
        if older:
            arguments.append("--port=0")  # Its plain port is 10251 for everybody on this machine.
        if extender is not None:
            document = extender
            if isinstance(document, ExtenderEntry):
                version = older.version if older else await self.client.version()
                document = new_config(document, parse_version(version), scheduler_flags(arguments))
            path = self.root / f"{name}.yaml"
            path.write_text(document.text + ("" if document.format is ConfigFormat.POLICY else _SHORT_WAITS))
            arguments.append(f"--{document.flag}={path}")
        await self.start(
            self.command(
                name,
                str(binary),
                *(*arguments, "--bind-address=127.0.0.1", "--permit-port-sharing=true", "--v=2"),
                *(f"--secure-port={self._scheduler_port.number}", f"--cert-dir={self.root / 'scheduler'}"),
                *(f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"),
                ready=_SECURE,
            )
        )

    async def end(self, name: str) -> None:
        """End one of the processes."""
        await self.children.pop(name).stop()
