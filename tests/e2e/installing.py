"""The plain manifests on a control plane, and the tokens of the accounts in them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from gcushare_playground.picture import POD_OBJECTS
from tests.documents import ROOT
from tests.e2e.assets import need_client
from tests.e2e.control_plane import NODE, ControlPlane
from tests.e2e.node_side import real_pod
from tests.e2e.objects import pod
from tests.e2e.waiting import until
from tests.playground.clusters import BIN

DEPLOY = Path(__file__).parents[2] / "deploy"
RECORD = {ENFLAME.record.card_index: "0"}


def kubectl(control_plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """Run kubectl as the administrator; returns what it prints, and fails with what it complains about."""
    words = [str(need_client("kubectl")), f"--kubeconfig={control_plane.kubeconfig}", *arguments]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True)
    assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
    return done.stdout


async def type_in(control_plane: ControlPlane, words: str, folder: Path = ROOT) -> str:
    """Type commands of a page as the administrator; returns what they print. The chart is that of this checkout."""
    for name in ("helm", "kubectl"):
        need_client(name)
    environ = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "PATH": f"{BIN}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", words.replace("oci://registry.local/gcushare/charts/", f"{DEPLOY}/")),
        cwd=folder,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


async def account_kubeconfig(control_plane: ControlPlane, account: str, *, on_node: bool = False) -> Path:
    """Take a token of a service account, as a pod on the node gets it, and write the kubeconfig that uses it."""
    asked: dict[str, Any] = {"expirationSeconds": 3600}
    if on_node:
        body = real_pod("holds-the-token", 0, nodeName=NODE, serviceAccountName=account)
        made = await control_plane.client.create(POD_OBJECTS, body, namespace="kube-system")
        metadata = made["metadata"]
        asked["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    url = f"{control_plane.url}/api/v1/namespaces/kube-system/serviceaccounts/{account}/token"
    async with control_plane.http.post(url, json={"spec": asked}) as answer:
        document = await answer.json()
        assert answer.status == 201, document
    path = control_plane.root / f"{account}.kubeconfig"
    token, authority = document["status"]["token"], control_plane.authority
    return write_kubeconfig(path, control_plane.url, token=token, authority=authority, namespace="kube-system")


async def until_policies_hold(control_plane: ControlPlane) -> None:
    """Wait until kube-apiserver has read the policies, first and last: it does so a moment after it took them.

    The last is that of nodes; without the node there is nothing to ask it about.
    """
    forged = pod("probe", 1)
    forged["metadata"]["annotations"] = RECORD
    as_plugin = {
        "Impersonate-User": "system:serviceaccount:kube-system:gcushare-device-plugin",
        "Content-Type": "application/merge-patch+json",
    }
    label = b'{"metadata":{"labels":{"probe":"x"}}}'

    async def missing() -> str:
        url = f"{control_plane.url}/api/v1/namespaces/default/pods?dryRun=All"
        async with control_plane.http.post(url, json=forged) as answer:
            if answer.status != 422:
                return f"a forged pod is answered {answer.status}"
        url = f"{control_plane.url}/api/v1/nodes/{NODE}/status?dryRun=All"
        async with control_plane.http.patch(url, data=label, headers=as_plugin) as answer:
            return "" if answer.status in (422, 404) else f"a plugin's label on its node is answered {answer.status}"

    await until(missing, "the policies hold")
