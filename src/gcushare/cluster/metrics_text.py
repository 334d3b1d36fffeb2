"""A program's /metrics, read back."""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gcushare.core.errors import RemoteContractError
from gcushare.wire.untrusted_json import reason_of


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """Every figure of one answer; an empty one was never asked for."""

    samples: tuple[Sample, ...]

    def __bool__(self) -> bool:
        return bool(self.samples)

    def sum(self, name: str, **labels: str) -> float:
        """The sum of the figures with this name and these labels; 0 if there is none."""
        return sum(self._values(name, labels))

    def least(self, name: str, **labels: str) -> float:
        """The least of them; 0 if there is none."""
        return min(self._values(name, labels), default=0.0)

    def _values(self, name: str, labels: dict[str, str]) -> list[float]:
        wanted = labels.items()
        return [each.value for each in self.samples if each.name == name and wanted <= each.labels.items()]


def parse_figures(text: str) -> MetricsPage:
    """Read the text that Prometheus scrapes.

    Raises:
        RemoteContractError: it is another text.
    """
    try:
        families = text_string_to_metric_families(text)
        ours = (family for family in families if family.name.startswith("gcushare"))
        return MetricsPage(tuple(sample for family in ours for sample in family.samples))
    except Exception as failure:  # the parser lets through what its parts raise: ValueError, KeyError, IndexError...
        raise RemoteContractError(
            f"the metrics cannot be read: {type(failure).__name__}: {reason_of(failure)}"
        ) from failure
