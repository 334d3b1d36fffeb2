"""A whole program made of the shared parts, in its own process: command line, log, server, health, signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from contextlib import AbstractContextManager
from pathlib import Path

from tests.protocol.runtime_bench import python

_PROGRAM = '''
import asyncio, logging, sys
from aiohttp import web
from gcushare._version import __version__
from gcushare.runtime.entry import run_program
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.health import HealthChecks, Heartbeat
from gcushare.runtime.http.page_server import start_server
from gcushare.runtime.settings.declare import Program, group, settings
from gcushare.runtime.shutdown import Shutdown, root_tasks, run

@settings
class ExampleSettings:
    """Example."""
    log: LogSettings = group(LogSettings)
    serve: ServeSettings = group(ServeSettings, listen_address="127.0.0.1")

PROGRAM = Program("gcushare-example", "Shows the shared parts at work.", ExampleSettings)

async def beat(heart):
    while True:
        heart.beat()
        await asyncio.sleep(0.01)

async def serve(settings, shutdown):
    health, heart = HealthChecks(), Heartbeat("beat", 30)
    health.add_live("beat", heart.check)
    app = web.Application()
    app.add_routes(health.routes())
    server = await start_server(app, settings.serve)
    async with root_tasks(shutdown, drain_s=5) as tasks:
        tasks.start("beat", beat(heart))
        tasks.start("serve", stop_server(server, shutdown), drains=True)
    return 0

async def stop_server(server, shutdown):
    await shutdown.wait()
    await server.stop(drain_s=4)

sys.exit(run_program(PROGRAM, lambda settings: run(lambda shutdown: serve(settings, shutdown)),
                     log_settings=lambda settings: settings.log))
'''


def started(*argv: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return python("-X", "dev", "-c", _PROGRAM, *argv)


def run_once(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *argv], capture_output=True, text=True, timeout=30, check=False
    )


def test_it_serves_reports_ready_and_ends_in_order_on_sigterm(tmp_path: Path) -> None:
    with started(f"--log-dir={tmp_path}", "--log-format=json") as process:
        url = wait_for_url_json(process)
        with urllib.request.urlopen(f"{url}/readyz", timeout=60) as got:
            assert json.load(got) == {"status": "ok", "checks": {"beat": {"ok": True}}}
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=20)

    assert process.returncode == 0
    assert "Warning" not in rest
    written = map(json.loads, (tmp_path / "gcushare-example.log").read_text().splitlines())
    lines = [line for line in written if line["logger"] != "asyncio"]  # -X dev has it tell what took long
    assert [line["message"].split(" ")[0] for line in lines] == ["listening", "stopping", "stopped"]
    assert lines[1]["fields"] == {"reason": "signal SIGTERM"}


def wait_for_url_json(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    url = json.loads(process.stderr.readline())["fields"]["url"]
    assert isinstance(url, str)
    return url
