"""A plugin's /status as readers of another release meet it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.wire.documents.plugin_status import PLUGIN_STATUS, PluginStatus
from tests.unit.status_documents import FIRST


def parse(document: dict[str, Any]) -> PluginStatus:
    return PLUGIN_STATUS.read(json.dumps(document).encode())


def test_the_first_plugins_document_is_read() -> None:
    status = parse(FIRST)
    ((pod,), (card,)) = status.pods, status.cards
    assert (status.problems, pod.recorded_cards, pod.held_by_card) == ({"registration": "refused"}, None, {0: 4})
    assert (card.mode, card.holders, card.use, pod.cards, pod.whole) == ("", (), None, (), False)
    assert (status.driver, status.modes, status.foreign_containers, status.watch_age_seconds) == ("", (), 0, None)


@pytest.mark.parametrize("field", sorted(FIRST))
def test_a_document_without_what_every_plugin_reported_is_another_programs(field: str) -> None:
    with pytest.raises(RemoteContractError, match=f"a status of gcushare-device-plugin cannot be read: .*`{field}`"):
        parse({name: value for name, value in FIRST.items() if name != field})
