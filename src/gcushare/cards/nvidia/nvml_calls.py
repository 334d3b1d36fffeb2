"""Calls of NVML by name: reported before they are made, with failures as this project's errors."""

from __future__ import annotations

from typing import Any

import pynvml

from gcushare.cards.errors import CallFailure, LibraryCallError
from gcushare.cards.ports import CallObserver

_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    }
)
"""Codes with which a consumer card, a vGPU or an old driver answers a query that it does not have."""
CODE_NAMES: dict[int, str] = {
    getattr(pynvml, name): name for name in sorted(dir(pynvml)) if name.startswith("NVML_ERROR_")
}


class NvmlCalls:
    """The functions of ``pynvml``. ``observe`` gets the name of each before it is called."""

    def __init__(self, observe: CallObserver) -> None:
        self._observe = observe

    def query(self, name: str, *arguments: Any) -> Any:
        """Make a call that not every card or driver supports; None if it is not supported."""
        try:
            return self.call(name, *arguments)
        except LibraryCallError as error:
            if error.failure.is_unsupported:
                return None
            raise

    def call(self, name: str, *arguments: Any) -> Any:
        """Make a call.

        Raises:
            LibraryCallError: it failed, or its answer is not readable text.
        """
        self._observe(name)
        try:
            return getattr(pynvml, name)(*arguments)
        except pynvml.NVMLError as error:
            raise LibraryCallError(
                CallFailure(
                    name,
                    error.value,
                    CODE_NAMES.get(error.value, "unknown code"),
                    detail=str(error),
                    is_unsupported=error.value in _UNSUPPORTED,
                    is_lost=error.value == pynvml.NVML_ERROR_GPU_IS_LOST,
                )
            ) from error
        except UnicodeDecodeError as error:
            raise LibraryCallError(CallFailure(name, -1, "undecodable answer", detail=repr(error.object))) from error
