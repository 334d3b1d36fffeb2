"""Limits each framework by an environment variable, or by a call after its import.

Sources: PyTorch, torch.cuda.set_per_process_memory_fraction; TensorFlow, tf.config.set_logical_device_configuration;
JAX, "GPU memory allocation"; CuPy, "Memory management"; PaddlePaddle, FLAGS_gpu_memory_limit_mb.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from gcushare_limits.grant import Grant, share_text

Configure = Callable[[Any, Grant], None]

_XLA_NAMES = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")
"""Two names of one choice. jaxlib reads both, and refuses both at once; scripts write the first."""


def apply(grant: Grant) -> tuple[str, ...]:
    """Limit the frameworks; returns their names. A framework that is already imported is configured at once."""
    share = share_text(grant.fraction)
    if not any(name in os.environ for name in _XLA_NAMES):
        os.environ[_XLA_NAMES[0]] = share
    os.environ.setdefault("CUPY_GPU_MEMORY_LIMIT", str(grant.bytes_per_card))
    os.environ.setdefault("FLAGS_gpu_memory_limit_mb", str(grant.bytes_per_card >> 20))
    waiting = {}
    for name, configure in _CONFIGURED.items():
        module = sys.modules.get(name)
        if module is not None:
            _configure(name, configure, module, grant)
        else:
            waiting[name] = configure
    sys.meta_path.insert(0, _Finder(waiting, grant))
    return ("jax", "cupy", "paddle", *_CONFIGURED)


def limit_torch(torch: Any, grant: Grant) -> None:
    """Limit the caching allocator of each device, once CUDA is used. A process must not use CUDA before it forks."""

    def limit() -> None:
        used = torch.cuda.current_device()
        for device in range(torch.cuda.device_count()):
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.set_per_process_memory_fraction(min(1.0, grant.bytes_per_card / total), device)
        torch.cuda.set_device(used)  # Each call makes its device the current one.

    if torch.cuda.is_initialized():
        limit()
    else:
        # The queue that torch keeps for its own settings (seeds, for one) until CUDA is used.
        torch.cuda._lazy_call(limit)


def limit_tensorflow(tensorflow: Any, grant: Grant) -> None:
    """Create one logical device per card, with the granted memory in MiB, TensorFlow's unit."""
    for device in tensorflow.config.list_physical_devices("GPU"):
        if not tensorflow.config.get_logical_device_configuration(device):
            limited = tensorflow.config.LogicalDeviceConfiguration(memory_limit=max(1, grant.bytes_per_card >> 20))
            tensorflow.config.set_logical_device_configuration(device, [limited])
            # TensorFlow refuses memory growth on such a device, and its authors advise to set it.
            tensorflow.config.experimental.set_memory_growth = lambda *_, **__: None


_CONFIGURED: dict[str, Configure] = {"torch": limit_torch, "tensorflow": limit_tensorflow}


def _configure(name: str, configure: Configure, module: ModuleType, grant: Grant) -> None:
    """Configure a framework. An incompatible release must not end the program."""
    try:
        configure(module, grant)
    except Exception as error:  # any error: the program must still run as it would without this package
        warnings.warn(f"gcushare-limits could not limit {name}: {type(error).__name__}: {error}", stacklevel=2)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the frameworks where everybody does, and has them configured right after they were imported.

    Code that only asks where a framework is (``importlib.util.find_spec``) changes nothing.
    """

    def __init__(self, waiting: dict[str, Configure], grant: Grant) -> None:
        self._waiting = waiting
        self._grant = grant

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._waiting:
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, lambda module: self._imported(fullname, module))
                return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        configure = self._waiting.pop(name, None)
        if configure is not None:
            _configure(name, configure, module, self._grant)


class _Loader(importlib.abc.Loader):
    """Wraps a loader and configures the module after it is loaded."""

    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        found: ModuleType | None = self._inner.create_module(spec)
        return found

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._then(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
