"""The distribution gcushare-limits, in an interpreter of its own, with small stand-ins for the frameworks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from gcushare.core.units import GIB

ROOT = Path(__file__).parents[2]
LIMITS = ROOT / "limits" / "src"
GRANT = {
    "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": str(4 * GIB),
    "GCUSHARE_CARD_MEMORY_BYTES": str(16 * GIB),
    "ALIYUN_COM_GPU_MEM_CONTAINER": "4",
    "ALIYUN_COM_GPU_MEM_DEV": "15",
    "ALIYUN_COM_GPU_MEM_IDX": "1",
}
TORCH = """
import types
calls, queue = [], []
class cuda:
    initialized = False
    def is_initialized(): return cuda.initialized
    def _lazy_call(call): queue.append(call)
    current, devices = 0, 1
    def device_count(): return cuda.devices
    def current_device(): return cuda.current
    def set_device(device): cuda.current = device
    def get_device_properties(device): return types.SimpleNamespace(total_memory=16 << 30)
    def set_per_process_memory_fraction(fraction, device):
        calls.append((fraction, device))
        cuda.current = device
    def init():
        cuda.initialized = True
        for call in queue: call()
"""
TENSORFLOW = """
calls = []
class config:
    configured = {}
    def list_physical_devices(kind): return ["gpu0"] if kind == "GPU" else []
    def get_logical_device_configuration(device): return config.configured.get(device)
    def LogicalDeviceConfiguration(memory_limit): return memory_limit
    def set_logical_device_configuration(device, found): calls.append((device, found))
    class experimental:
        def set_memory_growth(device, enable): raise ValueError("virtual devices configured")
"""


@pytest.fixture
def frameworks(tmp_path: Path) -> Path:
    """A folder with the stand-ins; their calls are the ones that the frameworks document."""
    (tmp_path / "torch.py").write_text(TORCH)
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    return tmp_path


def run(
    modules: Path, *words: str, environ: Mapping[str, str] = GRANT, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    path = {"PYTHONPATH": f"{LIMITS}:{modules}", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-W", "error", *words]
    return subprocess.run(command, env={**path, **environ}, cwd=folder, capture_output=True, text=True, check=False)


def answer(folder: Path, program: str, environ: Mapping[str, str] = GRANT) -> object:
    done = run(folder, "-c", f"import json, os\n{program}", environ=environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_torch_is_limited_when_it_first_uses_the_card_and_not_at_import(frameworks: Path) -> None:
    program = "import gcushare_limits, torch\nbefore = list(torch.calls)\ntorch.cuda.devices = 2\ntorch.cuda.init()"
    shown = "print(json.dumps([before, torch.calls, torch.cuda.current]))"
    assert answer(frameworks, f"{program}\n{shown}") == [[], [[0.25, 0], [0.25, 1]], 0]


def test_a_container_that_may_burst_is_limited_to_its_pods_limit(frameworks: Path) -> None:
    burst = {**GRANT, "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": str(12 * GIB)}  # the units stay those of its request
    program = "import gcushare_limits, torch\ntorch.cuda.init()\nprint(json.dumps(torch.calls))"
    assert answer(frameworks, program, burst) == [[0.75, 0]]


def test_code_that_only_asks_where_a_framework_is_leaves_it_limited(frameworks: Path) -> None:
    asked = (
        "import gcushare_limits, importlib.util\nfound = [bool(importlib.util.find_spec('torch')) for _ in range(2)]"
    )
    used = "import torch\ntorch.cuda.init()\nprint(json.dumps([found, torch.calls]))"
    assert answer(frameworks, f"{asked}\n{used}") == [[True, True], [[0.25, 0]]]


# An interpreter for each case.
@pytest.mark.slow
def test_tensorflow_gets_one_device_of_the_granted_size_unless_its_author_made_some(frameworks: Path) -> None:
    program = "import gcushare_limits, tensorflow\nprint(json.dumps(tensorflow.calls))"
    program += "\ntensorflow.config.experimental.set_memory_growth('gpu0', enable=True)"
    assert answer(frameworks, program) == [["gpu0", [4096]]]
    before = "import tensorflow\ntensorflow.config.configured['gpu0'] = [1]\nimport gcushare_limits"
    assert answer(frameworks, f"{before}\nprint(json.dumps(tensorflow.calls))") == []


def test_a_share_is_cut_and_not_rounded(frameworks: Path) -> None:
    grant = {**GRANT, "GCUSHARE_CARD_MEMORY_BYTES": str(6 * GIB)}
    program = "import gcushare_limits\nprint(json.dumps({k: v for k, v in os.environ.items() if 'MEM' in k.upper()}))"
    found = answer(frameworks, program, grant)
    assert isinstance(found, dict)
    own = {name: found[name] for name in found.keys() - GRANT.keys()}
    limits = {"CUPY_GPU_MEMORY_LIMIT": str(4 * GIB), "FLAGS_gpu_memory_limit_mb": "4096"}
    assert own == {**limits, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.6666"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no container of ours"),
        pytest.param({"NVIDIA_VISIBLE_DEVICES": "GPU-1"}, id="a whole card"),
        pytest.param({**GRANT, "ALIYUN_COM_GPU_MEM_DEV": "0"}, id="a card without units"),
        pytest.param({**GRANT, "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": "much"}, id="no number"),
    ],
)
def test_without_a_grant_of_memory_nothing_is_touched(frameworks: Path, environ: Mapping[str, str]) -> None:
    program = "before = dict(os.environ)\nimport gcushare_limits, torch\ntorch.cuda.init()"
    shown = "print(json.dumps([torch.calls, before == dict(os.environ), gcushare_limits.fraction()]))"
    assert answer(frameworks, f"{program}\n{shown}", environ) == [[], True, 1.0]


@pytest.mark.slow
def test_of_several_cards_each_has_its_share_and_enflames_variables_are_read_too(frameworks: Path) -> None:
    shown = "import gcushare_limits\nprint(json.dumps([gcushare_limits.memory_bytes(), gcushare_limits.fraction()]))"
    several = {**GRANT, "ALIYUN_COM_GPU_MEM_IDX": "0,1"}
    assert answer(frameworks, shown, several) == [2 * GIB, 0.125]
    enflame = {
        "GCUSHARE_CONTAINER_USABLE_GLOBAL_MEM": str(8 * GIB),
        "ENFLAME_CONTAINER_USABLE_GLOBAL_MEM": "48",  # of the vendor's plugin, in whole GB
        "ENFLAME_COM_GCU_MEM_CONTAINER": "8",
        "ENFLAME_COM_GCU_MEM_DEV": "16",
        "ENFLAME_COM_GCU_MEM_IDX": "0",
    }
    assert answer(frameworks, shown, enflame) == [8 * GIB, 0.5]


@pytest.mark.slow
@pytest.mark.parametrize("is_installed", [True, False], ids=["installed command", "module"])
@pytest.mark.parametrize(
    ("words", "folder"),
    [
        pytest.param(("app/train.py",), "", id="script"),
        pytest.param(("app",), "", id="folder"),
        pytest.param(("-m", "train"), "app", id="module of the working directory"),
    ],
)
def test_a_programs_own_modules_are_found_where_python_finds_them(
    frameworks: Path, words: tuple[str, ...], folder: str, is_installed: bool
) -> None:
    (app := frameworks / "work" / "app").mkdir(parents=True)
    for name in ("train.py", "__main__.py"):
        (app / name).write_text("import data, torch\ntorch.cuda.init()\nprint(data.SIZE, torch.calls, __file__[0])\n")
    (app / "data.py").write_text("SIZE = 3\n")
    command = frameworks / "bin" / "gcushare-limits"
    command.parent.mkdir()
    command.write_text("import sys\nfrom gcushare_limits.__main__ import main\nsys.exit(main())\n")
    start = (str(command),) if is_installed else ("-m", "gcushare_limits")
    done = run(frameworks, *start, *words, folder=app.parent / folder)
    assert done.stdout == "3 [(0.25, 0)] /\n", done.stderr
    assert run(frameworks, *words, folder=app.parent / folder).stdout in ("3 [] /\n", "3 [] a\n"), "as Python runs it"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--nonsense"], 2, "there is no option '--nonsense'"),
        (["-m"], 2, "-m needs the name of a module"),
        (["-m", "nosuch"], 1, "there is no module 'nosuch'"),
        (["-m", "json.nosuch"], 1, "there is no module 'json.nosuch'"),
        (["-m", "./train.py"], 1, "there is no module './train.py'"),
        (["nosuch.py"], 2, "there is no program 'nosuch.py'"),
        (["fraction", "0.5"], 2, "'fraction' takes no arguments, not '0.5'"),
    ],
)
def test_what_cannot_be_run_is_named_in_one_line(tmp_path: Path, words: list[str], code: int, reason: str) -> None:
    done = run(tmp_path, "-m", "gcushare_limits", *words, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (code, "", 1), done.stderr
    assert done.stderr.startswith(f"gcushare-limits: {reason}")
