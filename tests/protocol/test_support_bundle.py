"""What a support bundle holds, and above all what it does not."""

from __future__ import annotations

import json
import stat
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gcushare.vendors import ENFLAME
from gcushare_playground.apiserver import User
from gcushare_playground.apiserver.objects import JsonObject
from tests.api_objects import an_object
from tests.extender_objects import pod_document
from tests.protocol.doctor_rig import (
    EXTENDER,
    LOOKER,
    NODE,
    PLUGIN,
    SCHEDULER,
    SYSTEM,
    DoctorRig,
    allow,
    config_map,
    record,
    tls_secret,
)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DoctorRig]:
    async with DoctorRig(tmp_path) as running:
        for node in (NODE, "master"):
            running.api.register_logs(node, print_log)
        running.put(an_object("Node", "master"))
        yield running


def logged(words: str) -> str:
    """A line as our programs write it."""
    return f"2026/11/22 02:53:08 INFO gcushare/kube/client.py:46 {words}\n"


async def print_log(pod: JsonObject, container: str) -> str:
    return logged(f"the end of {container}")


def files_of(path: Path) -> dict[str, bytes]:
    """Every file of an archive by its path, without the folder."""
    found = {}
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            assert content is not None
            found[member.name.partition("/")[2]] = content.read()
    return found


async def test_a_bundle_holds_findings_objects_answers_and_logs(rig: DoctorRig, tmp_path: Path) -> None:
    rig.put_asking("waits", 4)
    rig.extender.pages["/gcushare-scheduler/inspect"] = '{"nodes": []}'
    rig.extender.pages["/gcushare-scheduler/explain/default/waits"] = EXPLANATION
    path = tmp_path / "bundle.tar.gz"
    answer = await rig.run("support-bundle", str(path))
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{path}: ")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "only its owner may read it"
    files = files_of(path)
    assert {
        *("doctor.json", "doctor.txt", "schedulers.json"),
        *(f"cluster/{kind}.json" for kind in ("nodes", "pods", "events")),
        f"plugins/{NODE}/{PLUGIN}/status.json",
        *(f"extender/{EXTENDER}/{name}" for name in ("version.txt", "metrics.txt", "enflame-inspect.json")),
        f"extender/{EXTENDER}/enflame-explain/default_waits.json",
        f"logs/{SYSTEM}/{PLUGIN}/gcushare-device-plugin.log",
        f"logs/{SYSTEM}/{EXTENDER}/gcushare-scheduler-extender.log",
    } <= files.keys()
    assert files[f"logs/{SYSTEM}/{PLUGIN}/gcushare-device-plugin.log"].endswith(b"the end of gcushare-device-plugin\n")
    pods = {pod["metadata"]["name"] for pod in json.loads(files["cluster/pods.json"])["items"]}
    assert {"waits", PLUGIN, EXTENDER} <= pods


PLACES = (
    *("environment", "flag", "annotation", "log", "event", "status", "secret", "shell", "termination", "condition"),
    *("label", "library", "user", "quoted", "answer", "extender"),
)
SECRETS = {place: f"{place}-hunter2-value" for place in PLACES}
"""Planted where secrets are found in the field."""


EXPLANATION = json.dumps(
    {"namespace": "default", "name": "waits", "uid": "u", "state": "waits", "summary": "needs 4 in one card", "note": 1}
)
JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJlLW9mLWh1bnRlcjI"


async def print_secrets(pod: JsonObject, container: str) -> str:
    return (
        f"a library prints what it likes: {SECRETS['library']}\n"
        + logged(f'request failed error="password={SECRETS["log"]} was refused" user={SECRETS["user"]}')
        + logged(f"connecting as {SECRETS['environment']}")
        + logged(f"Authorization: Bearer {JWT}")
        + logged(f"GET https://admin:{SECRETS['log']}@db:5432/ failed")
        + logged(f"pod cannot be read pod=default/user reason=\"annotation x: '{SECRETS['quoted']}' is no number\"")
        + "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIhunter2\n-----END EC PRIVATE KEY-----\n"
        + logged("the end of the log")
    )


def plant(rig: DoctorRig) -> None:
    """Put a secret everywhere where one is found in the field."""
    rig.put(tls_secret("extender-tls", SECRETS["secret"].encode()))
    asking = pod_document(
        "user", 4, node=NODE, record=record(0, 4), annotations={"example.com/note": SECRETS["annotation"]}
    )
    container = asking["spec"]["containers"][0]
    container["env"] = [{"name": "DB_PASSWORD", "value": SECRETS["environment"]}, {"name": "MODE", "value": "fast"}]
    container["command"] = ["sh", "-c", f"mysql -p{SECRETS['shell']}"]
    asking["metadata"]["labels"] = {"team": SECRETS["label"]}
    message = f"DB_PASS={SECRETS['termination']} ghp_x"
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    rig.put_pod(
        asking,
        age_s=600,
        message=f"pull failed: https://bot:{SECRETS['status']}@registry/x",
        conditions=[{"type": "Ready", "status": "False", "message": SECRETS["condition"]}],
        containerStatuses=[{"name": "main", "restartCount": 1, "lastState": ended}],
    )

    def change(pod: JsonObject) -> None:
        pod["spec"]["containers"][0]["args"] += ["--token", SECRETS["flag"], f"--secret={SECRETS['flag']}"]
        pod["spec"]["volumes"] = [{"name": "tls", "secret": {"secretName": "extender-tls"}}]

    rig.change("pods", EXTENDER, change, SYSTEM)
    call_another_extender(rig)
    about = {"kind": "Pod", "namespace": "default", "name": "user"}
    message = f'mount failed: {{"apiKey": "{SECRETS["event"]}"}}'
    rig.put(an_object("Event", "e", involvedObject=about, message=message))
    rig.set_status(problems={"node": f"GET failed with token={SECRETS['status']}"})
    for node in (NODE, "master"):
        rig.api.register_logs(node, print_secrets)


def call_another_extender(rig: DoctorRig) -> None:
    """Have the scheduler call somebody else's extender alone, whose URL lets in who knows it."""
    url = f"https://hooks.example.com/{SECRETS['extender']}/v1"
    rig.put(config_map("theirs", scheduler__yaml=f"extenders:\n- urlPrefix: {url}\n"))

    def configure(pod: JsonObject) -> None:
        pod["spec"]["containers"][0]["args"] = ["--config=/etc/theirs/scheduler.yaml"]
        pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "config", "mountPath": "/etc/theirs"}]
        pod["spec"]["volumes"] = [{"name": "config", "configMap": {"name": "theirs"}}]

    rig.change("pods", SCHEDULER, configure, SYSTEM)


async def test_no_planted_secret_is_in_a_bundle(rig: DoctorRig, tmp_path: Path) -> None:
    plant(rig)
    path = tmp_path / "bundle.tar.gz"
    user = User("looker", ("system:masters",))
    token = rig.api.add_user(user)
    rig.extender.pages["/metrics"] += f'# somebody logged {token}\nother_figure{{password="{SECRETS["answer"]}"}} 1\n'
    rig.extender.pages["/gcushare-scheduler/inspect"] = json.dumps(
        {"nodes": [{"name": NODE, "note": SECRETS["answer"]}]}
    )
    assert (await rig.run("support-bundle", str(path), user=user)).code == 0
    files = files_of(path)
    whole = b"\n".join(files.values()).decode()
    found = {place for place, secret in SECRETS.items() if secret in whole}
    assert found == set()
    for fragment in ("hunter2", JWT[:30], "PRIVATE KEY", "fast"):
        assert fragment not in whole
    # The control: the places were collected, only the secrets are not in them.
    (finding,) = [one for one in json.loads(files["doctor.json"])["findings"] if one["id"] == "scheduler-not-calling"]
    assert finding["problem"].endswith("names no extender of gcushare; it names '…'")
    log = files[f"logs/{SYSTEM}/{EXTENDER}/gcushare-scheduler-extender.log"].decode()
    assert 'request failed error="password=******** was refused" user=…' in log
    assert "the end of the log" in log
    assert "https://********@db:5432/" in log
    assert "pod=default/user" in log
    assert log.endswith("(4 lines of another form left out)\n")
    pods = {pod["metadata"]["name"]: pod for pod in json.loads(files["cluster/pods.json"])["items"]}
    assert pods["user"]["spec"]["containers"][0]["environment"] == {"known": [], "others": 2}
    assert pods["user"]["metadata"]["annotationsLeftOut"] == 1
    assert pods["user"]["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
    assert pods["user"]["metadata"]["annotations"][ENFLAME.record.card_index] == "0"
    assert pods[EXTENDER]["spec"]["containers"][0]["args"] == ["--leader-elect", "(3 left out)"]
    assert json.loads(files["cluster/events.json"])["items"][0]["involvedObject"]["name"] == "user"


async def test_missing_rights_leave_a_smaller_bundle_that_says_so(rig: DoctorRig, tmp_path: Path) -> None:
    allow(rig, ("list", "pods", ""), ("list", "nodes", ""))
    path = tmp_path / "bundle.tar.gz"
    assert (await rig.run("support-bundle", str(path), user=LOOKER)).code == 0
    missing = {each["path"]: each["why"] for each in json.loads(files_of(path)["MANIFEST.json"])["leftOut"]}
    assert "Forbidden" in missing[f"logs/{SYSTEM}/{PLUGIN}/gcushare-device-plugin.log"]
    assert "Forbidden" in missing["cluster/events.json"]
    assert "cluster/nodes.json" in files_of(path)
