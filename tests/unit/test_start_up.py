"""What ``--help`` of a program loads: its settings and nothing of the running program, so that it answers at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = frozenset(
    {
        *("aiohttp", "asyncio", "cryptography", "google", "grpc", "logging", "multidict"),
        *("prometheus_client", "pynvml", "rich", "ruamel", "ssl", "uvloop", "watchfiles"),
    }
)
"""Libraries that take more than 10 ms to import, or that start something."""

_SHOW_HELP = """
import sys
from gcushare.{package}.__main__ import main
sys.argv = ["program", *{arguments!r}]
code = main()
print(code, *sorted({{name.partition(".")[0] for name in sys.modules}}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("device_plugin", ["--help"]),
        ("scheduler_extender", ["--help"]),
        ("config_manager", ["--help"]),
        ("config_manager", ["run", "--help"]),
        ("config_manager", ["apply", "--help"]),
    ],
)
def test_help_loads_settings_alone(package: str, arguments: list[str]) -> None:
    script = _SHOW_HELP.format(package=package, arguments=arguments)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=200)
    code, *loaded = done.stderr.split()
    assert (code, done.stdout[:6]) == ("0", "Usage:")
    assert "gcushare" in loaded
    assert not HEAVY & set(loaded), f"see python -X importtime -m gcushare.{package} --help"
