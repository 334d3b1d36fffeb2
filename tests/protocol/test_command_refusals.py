"""Every command where the API server refuses something, or has no such object: reason, advice, exit code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gcushare.cli.inspect.command_line import main_gcushare
from gcushare.cli.subcommands import main
from gcushare.cli.uninstall.clean import main as uninstall
from gcushare.runtime.entry import ProcessContext
from gcushare_playground.apiserver import FailBefore, Fault
from tests.protocol.doctor_rig import NODE, Answer, DoctorRig
from tests.protocol.kube_server import raw_server

Commands = dict[str, tuple[Callable[[ProcessContext], int], tuple[str, ...]]]
COMMANDS: Commands = {
    "doctor": (main, ("doctor",)),
    "doctor of a node": (main, ("doctor", "--node", NODE)),
    "support-bundle": (main, ("support-bundle", "{folder}/bundle.tar.gz")),
    "cards": (main, ("cards", NODE)),
    "cordon-card": (main, ("cordon-card", NODE, "0")),
    "defragment": (main, ("defragment", "--for", "4")),
    "uninstall": (uninstall, ("--vendor", "enflame")),
    "inspect": (main_gcushare, ()),
    "inspect as json": (main_gcushare, ("-o", "json")),
    "explain": (main_gcushare, ("explain", "p")),
    "top": (main_gcushare, ("top",)),
    "nodes-needed": (main_gcushare, ("nodes-needed",)),
}


EVERYTHING_BUT_VERSION = r"^/(?!version)"


async def answers(rig: DoctorRig, commands: Commands, **environ: str) -> dict[str, Answer]:
    """What each command does; none leaves a bundle behind."""
    found = {}
    for name, (command, argv) in commands.items():
        words = [word.format(folder=rig.folder) for word in argv]
        found[name] = await rig.call(command, words, environ=environ)
        assert not list(rig.folder.glob("bundle*")), name
    return found


@pytest.mark.parametrize("path", ["", EVERYTHING_BUT_VERSION, "^/api/"], ids=["all", "but the version", "core"])
async def test_an_expired_token_is_the_reason_and_a_new_one_the_advice(rig: DoctorRig, path: str) -> None:
    rig.api.faults.on(Fault(FailBefore(401, "Unauthorized", "Unauthorized"), path=path))
    for name, answer in (await answers(rig, COMMANDS)).items():
        assert (answer.code, answer.out) == (1, ""), name
        assert "was answered 401 Unauthorized" in answer.err, name
        assert answer.err.count("\nhint: log in again") == 1, name


async def test_a_refusal_of_everything_is_the_reason_and_a_right_the_advice(rig: DoctorRig) -> None:
    refusal = FailBefore(403, "Forbidden", "things is forbidden: no right to anything")
    rig.api.faults.on(Fault(refusal, path=EVERYTHING_BUT_VERSION))
    given = await answers(rig, COMMANDS)
    doctor = given.pop("doctor")  # what is missing is what it finds
    assert doctor.code == 3, doctor
    assert "no right to anything" in doctor.out
    assert doctor.out.count("grant that right") == doctor.out.count("cannot check") > 5
    for name, answer in given.items():
        assert (answer.code, answer.out) == (1, ""), name
        assert "no right to anything" in answer.err, name
        assert answer.err.count("\nhint: the line above names the verb") == 1, name


async def test_without_an_answer_of_the_cluster_every_command_says_what_to_look_at(rig: DoctorRig) -> None:
    await rig.api.stop()
    for name, answer in (await answers(rig, COMMANDS)).items():
        assert (answer.code, answer.out) == (75, ""), name
        assert answer.err.count("\nhint: is the API server up and reachable from here?") == 1, name


WEB_PAGE = b"<html><head><title>Sign in</title></head><body>Welcome</body></html>"


@pytest.mark.parametrize(
    ("code", "body"),
    [pytest.param(200, b'{"error": "log in"}', id="other JSON"), pytest.param(404, WEB_PAGE, id="a proxy's not found")],
)
async def test_another_program_at_the_address_is_named_with_what_to_check(
    rig: DoctorRig, code: int, body: bytes
) -> None:
    head = f"HTTP/1.1 {code} Any\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    async with raw_server(head.encode() + body) as address:
        given = await answers(rig, COMMANDS, KUBECONFIG=kubeconfig(rig, address))
    for name, answer in given.items():
        assert (answer.code, answer.out) == (1, ""), name
        assert f"; the address {address} is from {rig.folder / 'elsewhere'}" in answer.err, name
        assert ("a web page, 'Sign in'" in answer.err) == (body is WEB_PAGE), name
        assert answer.err.count("\nhint: check the server's address and proxy-url in the kubeconfig") == 1, name


def kubeconfig(rig: DoctorRig, address: str) -> str:
    path = rig.folder / "elsewhere"
    path.write_text(rig.kubeconfig.read_text().replace(rig.api.url, address))
    return str(path)


async def test_a_doctor_without_a_right_to_the_version_says_so_and_goes_on(rig: DoctorRig) -> None:
    refusal = FailBefore(403, "Forbidden", 'User "u" cannot get path "/version"')
    rig.api.faults.on(Fault(refusal, path="^/version"))
    answer = await rig.call(main, ("doctor",))
    assert answer.code == 3, answer
    assert "cannot check the API server's version and time: GET /version was answered 403" in answer.out
    assert answer.out.count("cannot check") == 1


NAMING_A_NODE: Commands = {
    "doctor": (main, ("doctor", "--node", "nope")),
    "support-bundle": (main, ("support-bundle", "--node", "nope", "{folder}/bundle.tar.gz")),
    "cards": (main, ("cards", "nope")),
    "cordon-card": (main, ("cordon-card", "nope", "0")),
    "uncordon-card": (main, ("uncordon-card", "nope", "0")),
    "inspect": (main_gcushare, ("nope",)),
    "inspect by the API server": (main_gcushare, ("nope", "--source", "api")),
    "top": (main_gcushare, ("top", "nope")),
}


async def test_a_node_that_does_not_exist_is_reported_by_its_name(rig: DoctorRig) -> None:
    for name, answer in (await answers(rig, NAMING_A_NODE)).items():
        assert (answer.code, answer.out) == (1, ""), name
        first = answer.err.splitlines()[0]
        assert first == "error: there is no node 'nope'; 'kubectl get nodes' lists them", name
