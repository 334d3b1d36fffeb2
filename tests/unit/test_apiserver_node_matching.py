from __future__ import annotations

import pytest

from gcushare_playground.apiserver.controllers.node_matching import fits
from gcushare_playground.apiserver.objects import JsonObject

NODE: JsonObject = {
    "metadata": {"name": "n1", "labels": {"gpushare": "true"}},
    "spec": {
        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}]
    },
}


def _affinity(**term: object) -> JsonObject:
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


TOLERANT = [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, False, id="taint not tolerated"),
        pytest.param({"tolerations": TOLERANT}, True, id="taint tolerated by value"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, True, id="everything tolerated"),
        pytest.param({"tolerations": [{"key": "k", "value": "other"}]}, False, id="another value"),
        pytest.param(
            {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}]}, False, id="other effect"
        ),
        pytest.param({"tolerations": TOLERANT, "nodeSelector": {"gpushare": "true"}}, True, id="selected"),
        pytest.param({"tolerations": TOLERANT, "nodeSelector": {"gpushare": "false"}}, False, id="not selected"),
        pytest.param(
            {
                "tolerations": TOLERANT,
                "affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n1"]}]),
            },
            True,
            id="chosen by name",
        ),
        pytest.param(
            {
                "tolerations": TOLERANT,
                "affinity": _affinity(matchFields=[{"key": "metadata.name", "operator": "In", "values": ["n2"]}]),
            },
            False,
            id="another one chosen by name",
        ),
        pytest.param({"tolerations": TOLERANT, "affinity": _affinity()}, False, id="an empty term chooses nothing"),
    ],
)
def test_a_pod_fits_where_selector_affinity_and_taints_allow(spec: JsonObject, expected: bool) -> None:
    assert fits(spec, NODE) is expected
