"""The scheduler's port: a small strict HTTP/1.1 server for verbs and for the few paths that read."""

from __future__ import annotations

from collections.abc import Sequence

from gcushare.runtime.http.connections import ConnectionTable
from gcushare.runtime.http.scheduler_connection import SchedulerConnection, Site
from gcushare.runtime.http.scheduler_requests import GetPath, Verb
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.http.shared_budgets import BodyBudget
from gcushare.runtime.settings.serving import ServeSettings


async def start_scheduler_server(
    verbs: Sequence[Verb], pages: Sequence[GetPath], settings: ServeSettings, *, only_client: str = ""
) -> RunningServer:
    """Serve verbs and pages as the settings say; port 0 is read back as ``RunningServer.port``.

    With ``only_client`` a client is served only if its certificate has that name. With ``tls_client_ca_file`` a client
    without a certificate fails the handshake. Limits every client: connections, size and time of head and body, time to
    read the answer, and what one turn of the event loop handles. A request that could be read in two ways is 400.

    Raises:
        ConfigError: the address cannot be listened on, or the TLS files cannot be used.
    """
    budget = BodyBudget(settings.max_request_size)
    table = ConnectionTable(settings.max_connections)
    server = RunningServer(settings, table, requires_client=settings.tls_client_ca_file is not None)
    site = Site({verb.path: verb for verb in verbs}, pages, settings, only_client, table, budget, server.rejected)
    await server.listen(lambda: SchedulerConnection(site), site.end)
    return server
