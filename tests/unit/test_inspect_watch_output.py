"""What ``--watch`` prints on a pipe: each change once, and a line while the API server does not answer."""

from __future__ import annotations

import io
import json

import pytest

from gcushare.cli.inspect.table_command import Snapshots, print_documents, print_tables
from gcushare.cli.kubectl.flags import Output, ShowFlags, TableSettings
from gcushare.cli.terminal.screen import Screen
from gcushare.cluster.follow import LiveSnapshot
from gcushare.runtime.entry import ProcessContext
from tests.builders import cards, held
from tests.unit.inspect_snapshots import give, picture_of


async def outage() -> Snapshots:
    snapshot = picture_of(("node-1", cards(16), "1"))
    yield LiveSnapshot(snapshot)
    yield LiveSnapshot(snapshot)
    yield LiveSnapshot(snapshot, "nodes: no answer")
    yield LiveSnapshot(snapshot, "nodes: no answer")
    yield LiveSnapshot(give(snapshot, held("a", "node-1", (0, 4))))


@pytest.mark.parametrize("output", [Output.JSON, Output.TABLE])
async def test_what_is_the_same_is_not_repeated_and_an_outage_is_said(output: Output) -> None:
    stdout, stderr = io.StringIO(), io.StringIO()
    screen = Screen(ProcessContext((), {}, stdout, stderr))
    settings = TableSettings(show=ShowFlags(output=output))
    if output is Output.JSON:
        await print_documents(screen, outage(), settings)
        shown = [json.loads(line)["cluster"]["allocated"] for line in stdout.getvalue().splitlines()]
    else:
        await print_tables(screen, outage(), settings)
        shown = [int(line.split("/")[0]) for line in stdout.getvalue().splitlines() if line.endswith("%)  ")]
    assert shown == [0, 4]
    assert stderr.getvalue().splitlines() == ["warning: nodes: no answer; trying again", "warning: answered again"]
