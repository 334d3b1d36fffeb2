"""``gcushare cards --watch`` as a process: on a pipe, for programs, on a terminal; and plugins that speak TLS."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from tests.protocol.cards_command_rig import Caller, simulated
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.runtime_certificates import Authority
from tests.protocol.test_inspect_watch import DEADLINE_S, Follower

RUN = ("-m", "gcushare", "cards", "--watch", "--interval", "200ms")


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": "/nowhere", **more}


async def end(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGINT)
    return await asyncio.wait_for(process.wait(), DEADLINE_S)


async def test_a_pipe_gets_one_document_per_look_with_what_is_so_then(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *RUN, "-o", "json", "--cards", simulated(tmp_path, {"used": "1GiB"}),
        env=environ(), stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            first = json.loads(await process.stdout.readline())
            simulated(tmp_path, {"used": "2GiB"})
            while (used := _used(json.loads(await process.stdout.readline()))) == _used(first):
                continue
        assert (_used(first), used) == (1 << 30, 2 << 30)
        assert await end(process) == 128 + signal.SIGINT
    finally:
        if process.returncode is None:
            process.kill()


def _used(document: dict[str, list[dict[str, list[dict[str, int]]]]]) -> int:
    return document["nodes"][0]["cards"][0]["usedBytes"]


@pytest.mark.slow
async def test_a_terminal_gets_a_live_screen_that_outlives_the_plugin() -> None:
    async with PluginRig(cards=(16,)) as rig:
        assert rig.app.server is not None
        leader, terminal = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable, *RUN, "--plugin", rig.app.server.url,
            env=environ(TERM="xterm", COLUMNS="80", LINES="24"), stdin=terminal, stdout=terminal, stderr=terminal,
        )  # fmt: skip
        os.close(terminal)
        ran, loop = Follower(process), asyncio.get_running_loop()
        loop.add_reader(leader, lambda: setattr(ran, "out", ran.out + _read(leader)))
        try:
            await ran.until(lambda it: "0 of 16 GB" in it.out and "Ctrl-C ends" in it.out)
            rig.bind("a", 4, card=0)
            await ran.until(lambda it: "4 of 16 GB" in it.out and "default/a" in it.out)
            await rig.stop_plugin()
            await ran.until(lambda it: "no plugin answers at" in it.out)
            assert await end(process) == 128 + signal.SIGINT
            await ran.until(lambda it: "\x1b[?1049l" in it.out)
        finally:
            loop.remove_reader(leader)
            os.close(leader)
            if process.returncode is None:
                process.kill()
        assert ran.out.index("\x1b[?1049h") < ran.out.index("\x1b[?1049l"), "the screen before is restored"


def _read(descriptor: int) -> str:
    try:
        return os.read(descriptor, 65536).decode(errors="replace")
    except OSError:  # the other end is closed
        return ""


@pytest.mark.slow
async def test_a_pipe_is_informed_of_trouble_once_and_of_its_end() -> None:
    async with PluginRig(cards=(16,)) as rig:
        assert rig.app.server is not None
        url = rig.app.server.url
        process = await asyncio.create_subprocess_exec(
            sys.executable, *RUN, "--plugin", url, env=environ(), stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        ran = Follower(process)
        async with asyncio.TaskGroup() as group:
            group.create_task(ran.collect(process.stdout, "out"), name="standard output")
            group.create_task(ran.collect(process.stderr, "err"), name="standard error")
            try:
                await ran.until(lambda it: it.out.count("0 of 16 GB") > 2)
                await rig.stop_plugin()
                await ran.until(lambda it: "warning: no plugin answers at" in it.err and "trying again" in it.err)
                rig.plugin_settings["listen_port"] = int(url.rpartition(":")[2])
                await rig.start_plugin()
                await ran.until(lambda it: "warning: answered again" in it.err)
                assert ran.err.count("trying again") < 4
                assert await end(process) == 128 + signal.SIGINT
            finally:
                if process.returncode is None:
                    process.kill()


@pytest.mark.parametrize("asks_clients", [False, True], ids=["server", "both sides"])
async def test_a_plugin_that_speaks_tls_is_believed_at_the_loopback_or_for_its_authority(
    tmp_path: Path, asks_clients: bool
) -> None:
    authority, stranger = Authority("plugins"), Authority("somebody else")
    cert, key = authority.issue("plugin").write(tmp_path, "plugin")
    own, other = tmp_path / "own.pem", tmp_path / "other.pem"
    own.write_bytes(authority.cert_pem)
    other.write_bytes(stranger.cert_pem)
    serve = {"tls_cert_file": cert, "tls_key_file": key, "tls_client_ca_file": own if asks_clients else None}
    async with PluginRig(cards=(16,), plugin=serve) as rig:
        assert rig.app.server is not None
        words = ["--plugin", rig.app.server.url]
        assert words[1].startswith("https://")
        if asks_clients:
            refused = await Caller({}).call(*words)
            assert (refused.code, refused.out) == (1, "")
            words += ["--tls-cert-file", str(cert), "--tls-key-file", str(key)]
        assert (await Caller({}).call(*words)).code == 0
        assert (await Caller({}).call(*words, "--tls-ca-file", str(own))).code == 0
        wrong = await Caller({}).call(*words, "--tls-ca-file", str(other))
        assert (wrong.code, wrong.out) == (75, "")
        assert "certificate verify failed" in wrong.err
