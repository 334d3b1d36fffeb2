"""When do certificates end?"""

from __future__ import annotations

from collections.abc import Iterator

from gcushare.cluster.diagnosis.facts import Facts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.core.wording import span

WARN_BEFORE_S = 20 * 86400.0
"""Below the 30 days before the end at which cert-manager renews a certificate of 90 days."""
URGENT_BEFORE_S = 3 * 86400.0


def check_certificates(facts: Facts) -> Iterator[Finding]:
    """Certificates that end soon, or have."""
    renew = (
        "renew it: cert-manager's Certificate says why it did not; with tls.mode=own delete the Secret and upgrade; of "
        "the scheduler's calls, verbsTls.mode=own, the extender's log says why (certificate check failed)"
    )
    for each in facts.certificates:
        if each.not_after is None:
            yield warning("certificate-unreadable", each.subject, each.problem, "put a certificate in PEM there")
            continue
        left_s = (each.not_after - facts.now).total_seconds()
        end = each.not_after.strftime("%Y-%m-%d %H:%M UTC")
        if left_s <= 0:
            yield error("certificate-expires", each.subject, f"it ended on {end}, {span(-left_s)} ago", renew)
        elif left_s <= WARN_BEFORE_S:
            make = error if left_s <= URGENT_BEFORE_S else warning
            yield make("certificate-expires", each.subject, f"it ends on {end}, in {span(left_s)}", renew)
