"""The command line and its processes, against a scheduler that runs and on hosts that take no files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from gcushare.cli.support_bundle.log_filter import cut_log
from gcushare.cli.support_bundle.redact import Redactor
from gcushare.cluster.programs import SERVICES
from gcushare.config_manager.__main__ import main
from gcushare.config_manager.node_reports import read_reports
from gcushare.core.errors import NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.resources import LEASES, NODES
from gcushare.wire.contracts import CONFIG_MANAGER
from gcushare_playground.apiserver import ApiServer, ApiServerConfig, FailBefore, Fault
from tests.documents import DOCS
from tests.protocol.commands import run_command
from tests.protocol.config_manager_node import ProcessNode, process_node, until
from tests.unit.config_manager_host import KUBEASZ, UNIT, Host, host_with

URL = "http://10.96.1.37:32766"
RESTART = "run now `systemctl daemon-reload && systemctl restart kube-scheduler.service`"
PROGRAM = (sys.executable, "-m", "gcushare.config_manager")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[ProcessNode]:
    async with process_node(tmp_path / "host") as running:
        yield running


async def call(*argv: str, environ: dict[str, str] | None = None) -> tuple[int, list[str], str]:
    """Run a command as the console script would; its code, lines and errors."""
    ran = await run_command(main, *argv, environ=environ or {"HOME": "/nowhere"})
    return ran.code, ran.lines, ran.err


def place(node: ProcessNode) -> tuple[str, ...]:
    return (f"--host-root={node.root}", "--wait-timeout=30s")


@pytest.mark.slow
async def test_a_running_scheduler_is_configured_shown_and_recovered(node: ProcessNode) -> None:
    before = node.manifest.read_bytes()
    code, lines, errors = await call("apply", *place(node), f"--extender-url={URL}")
    assert (code, errors) == (0, "")
    assert lines[-1].startswith("modify kube-scheduler config finish, for detail, see ")
    assert lines[-1].endswith(" /etc/kubernetes/manifests/kube-scheduler.yaml")
    code, shown, _ = await call("status", *place(node))
    assert code == 0
    assert "used by the running scheduler: yes" in shown
    assert "proven: yes" in shown
    starts = node.starts
    code, lines, _ = await call("apply", *place(node), f"--extender-url={URL}")
    assert (code, node.starts) == (0, starts)
    code, lines, _ = await call("recover", *place(node))
    assert (code, lines[-1]) == (0, "delete all scheduler config file success, for detail, see /etc/kubernetes")
    assert node.manifest.read_bytes() == before
    assert sorted(path.name for path in (node.root / "etc/kubernetes").iterdir()) == ["manifests"]
    assert (await call("status", *place(node)))[0] == 1


async def test_a_plan_shows_the_steps_and_the_diff_and_touches_nothing(node: ProcessNode) -> None:
    before = node.manifest.read_bytes()
    code, lines, _ = await call("plan", *place(node), f"--extender-url={URL}")
    assert code == 0
    step = "rename /etc/kubernetes/kube-scheduler.yaml to /etc/kubernetes/manifests/kube-scheduler.yaml"
    assert any(step in line for line in lines)
    assert "+    - --config=/etc/kubernetes/scheduler-extender-config-v1.23+.yaml" in lines
    assert node.manifest.read_bytes() == before
    assert sorted(path.name for path in (node.root / "etc/kubernetes").iterdir()) == ["manifests"]
    code, diff, _ = await call("diff", *place(node), f"--extender-url={URL}")
    assert diff == lines[-len(diff) :]
    code, rendered, _ = await call("render", *place(node), f"--extender-url={URL}")
    assert rendered[:2] == ["apiVersion: kubescheduler.config.k8s.io/v1", "kind: KubeSchedulerConfiguration"]


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit of a host that has no static pods."""
    file = tmp_path / UNIT[1:]
    file.parent.mkdir(parents=True)
    (tmp_path / "etc/kubernetes").mkdir()
    file.write_text(KUBEASZ)
    return file


@pytest.mark.parametrize("language", ["", "zh"])
@pytest.mark.usefixtures("unit")
async def test_the_line_for_masters_of_gpushares_instructions_edits_the_unit(tmp_path: Path, language: str) -> None:
    text = (DOCS / language / "install.md").read_text().replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if "gcushare-config-manager apply" in line and "aliyun" in line]
    program, *arguments, restart = shlex.split(line)
    assert (program, restart) == ("./gcushare-config-manager", "--restart")
    code, _, errors = await call(*arguments, f"--host-root={tmp_path}")
    assert (code, "kube-scheduler" in errors) == (1, True), "its program, asked for the version, is not there"
    code, lines, errors = await call(*arguments, f"--host-root={tmp_path}", "--scheduler-version=v1.23.1")
    assert (code, RESTART in lines[-1]) == (0, True), errors
    assert {path.name for path in tmp_path.iterdir()} == {"etc"}
    written = (tmp_path / "etc/kubernetes/scheduler-extender-config-v1.23+.yaml").read_text()
    assert "http://192.168.233.101:32766/gpushare-scheduler" in written


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        ((), 2, ""),
        (("aply",), 2, "unknown command 'aply': expected one of plan, apply"),
        (("apply", "--manifest=/a", "--unit=/b"), 2, "exclude each other"),
        (("apply", "--tls-cert=/a"), 2, "tls-cert and tls-key belong together"),
        (("apply", "--extender-service=x"), 2, "'x' is not a namespace and a name"),
        (("apply", "--weight=0"), 2, "too small"),
    ],
)
async def test_wrong_command_lines_end_with_2_and_say_why(argv: tuple[str, ...], code: int, message: str) -> None:
    got, _, errors = await call(*argv)
    assert got == code
    assert message in errors


@pytest.mark.slow
async def test_the_loop_follows_service_and_manifest_and_recovers_on_the_wish(
    node: ProcessNode, tmp_path: Path
) -> None:
    original = node.manifest.read_bytes()
    async with (
        ApiServer(ApiServerConfig(runs_controllers=False)) as server,
        KubeClient(KubeConfig(server=server.url, source="the test")) as client,
        keeping(node, server.kubeconfig(tmp_path / "kubeconfig")) as loop,
    ):
        await client.create(NODES, {"metadata": {"name": "cp-1"}})
        await put_service(client, "10.96.1.37")

        async def is_applied() -> bool:
            return [report.state for report in await read_reports(client, "kube-system")] == ["applied"]

        await until(is_applied, "the node reports that it is applied")
        assert await node.config_has(b"10.96.1.37")
        await put_service(client, "10.96.1.99")
        await until(lambda: node.config_has(b"10.96.1.99"), "the new address is followed")
        await until(node.is_proven, "the change is seen to its end")
        node.manifest.write_bytes(original)
        await until(lambda: node.manifest_has(b"gcushare"), "the rewritten manifest is changed again")
        code, said, errors = await call("uninstall", f"--kubeconfig={tmp_path / 'kubeconfig'}")
        assert (code, said.pop(), errors) == (0, "1 node recovered: cp-1", "")
        assert all(line.startswith("waiting: ") for line in said)
        assert node.manifest.read_bytes() == original
        assert sorted(path.name for path in (node.root / "etc/kubernetes").iterdir()) == ["manifests"]
        lease = await client.get(LEASES, CONFIG_MANAGER, namespace="kube-system")
        assert not lease.spec.holder_identity, "the turn was given back"
        loop.terminate()
        assert await asyncio.wait_for(loop.wait(), 60) == 0


@asynccontextmanager
async def keeping(
    node: ProcessNode, kubeconfig: Path, *flags: str, log: int = asyncio.subprocess.DEVNULL
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the DaemonSet's process."""
    process = await asyncio.create_subprocess_exec(
        *(*PROGRAM, "run", *place(node), "--interval=50ms", "--log-dir=", *flags),
        env={"KUBECONFIG": str(kubeconfig), "NODE_NAME": "cp-1", "POD_NAMESPACE": "kube-system"},
        stdout=log,
        stderr=log,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def put_service(client: KubeClient, address: str) -> None:
    """Make the extender's Service again with another address, as deleting and installing it again does."""
    name = "gcushare-scheduler-extender"
    with contextlib.suppress(NotFoundError):
        await client.delete(SERVICES, name, namespace="kube-system")
    spec = {"clusterIP": address, "ports": [{"port": 32766}]}
    await client.create(SERVICES, {"metadata": {"name": name}, "spec": spec}, namespace="kube-system")


async def started(node: ProcessNode, url: str, stdout: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
    arguments = (*place(node), f"--extender-url={url}")
    return await asyncio.create_subprocess_exec(
        *(*PROGRAM, "apply", *arguments),
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
        env={},
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # these tests, too, may run under nohup
    )


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda each: each.name)
async def test_a_signal_while_it_waits_for_the_scheduler_puts_everything_back(
    node: ProcessNode, number: signal.Signals
) -> None:
    before = node.manifest.read_bytes()
    # The scheduler ends on this configuration, so that the command waits.
    process = await started(node, "http://refused.example:1")
    await until(lambda: node.manifest_has(b"gcushare"), "the scheduler's file is changed")
    process.send_signal(number)
    out, err = await process.communicate()
    assert (process.returncode, b"interrupted, everything is put back" in out) == (1, True), err
    assert b"error: interrupted; rolled back, kube-scheduler is healthy again" in err
    assert node.manifest.read_bytes() == before
    assert [path.name for path in (node.root / "etc/kubernetes").iterdir()] == ["manifests"]


@pytest.mark.slow
async def test_a_change_goes_on_to_its_end_if_nobody_reads_its_lines(node: ProcessNode) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = await started(node, URL, writing)
    os.close(writing)
    _, err = await process.communicate()
    assert (process.returncode, err) == (128 + signal.SIGPIPE, b"")
    assert await node.is_proven()


TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SECRETS = ("alice", "payroll", "swordfish", TOKEN)
MESSAGE = f'User "alice" of system:serviceaccount:payroll:runner may not: the password is swordfish, the token {TOKEN}'
FAULTS = (
    Fault(FailBefore(403, "Forbidden", MESSAGE), path="/services/", count=2),
    Fault(FailBefore(500, "InternalError", MESSAGE), path="/configmaps/", method="PATCH", count=2),
    Fault(FailBefore(422, "Invalid", MESSAGE), path="/leases", count=1),
    Fault(FailBefore(403, "Forbidden", MESSAGE), path="/pods/", count=2),
)


# Several processes one after the other.
@pytest.mark.slow
async def test_nothing_secret_of_the_config_managers_log_is_in_a_bundle(node: ProcessNode, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with (
        ApiServer(ApiServerConfig(runs_controllers=False)) as server,
        KubeClient(KubeConfig(server=server.url, source="the test")) as client,
    ):
        await client.create(NODES, {"metadata": {"name": "cp-1"}})
        await put_service(client, "10.96.1.37")
        for fault in FAULTS:
            server.faults.on(fault)
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        with log.open("wb") as file:
            async with keeping(node, kubeconfig, "--log-level=debug", log=file.fileno()) as process:
                await until(lambda: node.config_has(b"10.96.1.37"), "the scheduler is configured after the failures")
                process.terminate()
                await asyncio.wait_for(process.wait(), 60)
    written = log.read_text()
    assert [secret for secret in SECRETS if secret not in written] == [], "the control: all of them were logged"
    kept = Redactor().text(cut_log(written, {"cp-1"}))
    assert [secret for secret in SECRETS if secret in kept] == []
    # Every line of the log is there, with what failed; what the command prints for people is not.
    assert kept.count("/config_manager/") == written.count("/config_manager/") > 0
    assert "was answered 403" in kept


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives directories to another user: run as root")


async def call_on(root: Path, command: str, *arguments: str) -> tuple[int, str]:
    """Run a command on a host; its exit code and what it printed as an error."""
    code, _, errors = await call(command, f"--host-root={root}", f"--extender-url={URL}", *arguments)
    return code, errors


async def refused(root: Path, *arguments: str) -> str:
    """The words with which plan, diff and apply all refuse."""
    tree = Host(root).tree()
    answers = {await call_on(root, command, *arguments) for command in ("plan", "diff", "apply")}
    assert Host(root).tree() == tree
    ((code, words),) = answers
    assert code != 0
    return words


def group_writable(folder: Path) -> None:
    folder.chmod(0o775)


def of_kube(folder: Path) -> None:
    os.chown(folder, 997, -1)


@pytest.mark.parametrize(
    ("directory", "change", "words"),
    [
        pytest.param("etc/kubernetes", group_writable, "can be written by others (mode 0775", id="group-writable"),
        pytest.param("etc", group_writable, "can be written by others (mode 0775", id="group-writable above"),
        pytest.param("etc/kubernetes/manifests", of_kube, "belongs to uid 997, ", id="owned by kube", marks=needs_root),
    ],
)
async def test_a_directory_that_another_user_controls(
    tmp_path: Path, directory: str, change: Callable[[Path], None], words: str
) -> None:
    host_with(tmp_path, "kubeadm-1.29.yaml")
    assert await call_on(tmp_path, "plan") == (0, "")
    change(tmp_path / directory)
    assert words in await refused(tmp_path)
    assert await call_on(tmp_path, "render") == (0, "")


async def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    host_with(tmp_path, "kubeadm-1.29.yaml")
    words = await refused(tmp_path, "--files-dir=/etc/gcushare")
    assert "cannot write '/etc/gcushare/" in words
    assert "No such file or directory; create its directory first" in words


@contextmanager
def mounted_read_only(folder: Path) -> Iterator[None]:
    """Have a directory of the host on a filesystem that is mounted read-only."""
    folder.mkdir(parents=True, exist_ok=True)
    if subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounts a filesystem: run as root")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_a_unit_below_a_read_only_usr_is_changed_by_the_drop_in_that_the_message_advises(tmp_path: Path) -> None:
    unit, version = "/usr/lib/systemd/system/kube-scheduler.service", "--scheduler-version=1.30"
    host = Host(tmp_path)
    host.put(unit, KUBEASZ)
    with mounted_read_only((tmp_path / unit[1:]).parent):
        words = await refused(tmp_path, f"--unit={unit}", version)
        assert "Read-only file system" in words
        assert "`systemctl edit` a drop-in that has its ExecStart=, and name that with --unit" in words
        drop_in = "/etc/systemd/system/kube-scheduler.service.d/override.conf"
        command = KUBEASZ.partition("[Service]\n")[2].partition("Restart=")[0]
        host.put(drop_in, f"[Service]\nExecStart=\n{command}")
        before = host.tree()
        assert await call_on(tmp_path, "apply", f"--unit={drop_in}", version) == (0, "")
        assert b"--config=" in host.get(drop_in)
        assert await call_on(tmp_path, "recover", f"--unit={drop_in}") == (0, "")
        assert host.tree() == before
