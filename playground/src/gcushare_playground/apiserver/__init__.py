"""A Kubernetes API server double over real HTTP: enough of one for kubectl, helm's requests and the real programs.

It stores and validates objects, serves lists and watches from one versioned history, runs the few controllers that
make workloads create pods, and can be asked to misbehave. It is not a conformant API server: no schemas beyond the
fields it looks into, no field ownership, no admission policies.

Import :class:`ApiServer` and its configuration from here; only the playground, the demo and tests may.
"""

from __future__ import annotations

from gcushare_playground.apiserver.authorization import Attributes
from gcushare_playground.apiserver.faults import (
    CutWatch,
    Delay,
    DropAfter,
    DropBefore,
    FailAfter,
    FailBefore,
    Fault,
)
from gcushare_playground.apiserver.identities import ADMIN, User, service_account
from gcushare_playground.apiserver.rbac import RbacAuthorizer
from gcushare_playground.apiserver.registry import Deletion, Registry
from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.storage import Storage

__all__ = [
    "ADMIN",
    "ApiServer",
    "ApiServerConfig",
    "Attributes",
    "CutWatch",
    "Delay",
    "Deletion",
    "DropAfter",
    "DropBefore",
    "FailAfter",
    "FailBefore",
    "Fault",
    "RbacAuthorizer",
    "Registry",
    "Storage",
    "User",
    "service_account",
]
