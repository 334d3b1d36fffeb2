"""What to do about an error: one line after it, for whoever ran the command."""

from __future__ import annotations

import ssl
from collections.abc import Sequence

from gcushare.core.errors import ConfigError, ForbiddenError, GcushareError, RetryableError
from gcushare.kube.errors import UnauthorizedError

RIGHTS = (
    "get and list nodes and pods, get services/proxy in kube-system for the extender's figures, get pods/proxy for top"
)


def hint_for(error: GcushareError, server: str) -> str:
    """Say what to do; empty where the error itself says it. ``server`` is the API server's address, where known."""
    if isinstance(error, UnauthorizedError):
        return "log in again (the token or certificate is wrong or has expired), or choose another --context or --user"
    if isinstance(error, ForbiddenError):
        return (
            "the line above names the verb and the resource that are missing; this command uses: "
            f"{RIGHTS}. See what you may do with 'kubectl auth can-i --list'"
        )
    if isinstance(error, RetryableError):
        where = f" at {server}" if server else ""
        return f"is the API server{where} up and reachable from here? 'kubectl version' asks the same; see --context"
    if isinstance(error, ConfigError) and isinstance(error.__cause__, ssl.SSLError):
        return "is this the right cluster? --certificate-authority names another authority"
    return ""


def near_names_hint(nodes: Sequence[str], commands: Sequence[str]) -> str:
    """Name the nodes that may have been meant, and the command lines."""
    meant = [f"node {' or '.join(nodes)}"] if nodes else []
    meant += [f"the command '{command}'" for command in commands]
    return f"did you mean {', or '.join(meant)}?" if meant else "'kubectl get nodes' lists every node's name"
