"""The double as a process of its own, as the demo may run it."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import aiohttp
import msgspec

MODULE = "gcushare_playground.apiserver"
DEADLINE_S = 20.0


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", MODULE, *arguments)
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def test_the_process_prints_its_address_serves_and_ends_on_a_signal(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    process = await _start("--kubeconfig", str(kubeconfig))
    assert process.stdout is not None
    async with asyncio.timeout(DEADLINE_S):
        url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
            assert await response.text() == "ok"
        cluster = msgspec.json.decode(kubeconfig.read_bytes())["clusters"][0]["cluster"]
        assert cluster == {"server": url}
        process.send_signal(signal.SIGTERM)
        await process.communicate()
    assert process.returncode == 0


async def test_a_wrong_flag_is_named(tmp_path: Path) -> None:
    process = await _start("--prot", "1")
    async with asyncio.timeout(DEADLINE_S):
        _, errors = await process.communicate()
    assert process.returncode == 2
    assert "--prot" in errors.decode()


async def test_without_the_cryptography_package_the_error_says_what_to_do(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['cryptography'] = None; "
    make = f"from {MODULE} import make_certificates; import pathlib; make_certificates(pathlib.Path({str(tmp_path)!r}))"
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", hidden + make, stdout=pipe, stderr=pipe)
    async with asyncio.timeout(DEADLINE_S):
        _, errors = await process.communicate()
    assert "ConfigError" in errors.decode()
    assert "serve plain HTTP" in errors.decode()
