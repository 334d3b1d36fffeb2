"""Checks of protected records, clocks and certificates, and a report of what could not be checked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gcushare.cluster.diagnosis.checks.views import span
from gcushare.cluster.diagnosis.facts import Facts, PolicyFacts
from gcushare.cluster.diagnosis.findings import Finding, error, warning
from gcushare.cluster.rights import Area
from gcushare.wire.kubernetes_versions import find_release

FIRST_WITH_POLICIES = (1, 30)
"""ValidatingAdmissionPolicy is generally available from here on."""
APART_S = 10.0
"""Above what NTP leaves, below what makes tokens and certificates fail."""
WARN_BEFORE_S = 20 * 86400.0
"""Below the 30 days before the end at which cert-manager renews a certificate of 90 days."""
URGENT_BEFORE_S = 3 * 86400.0


def check_policy(facts: Facts) -> Iterator[Finding]:
    """Pods' authors must not be able to write records."""
    release = find_release(facts.server_version)
    if release is None or release < FIRST_WITH_POLICIES or not facts.knows(Area.POLICIES) or facts.scope is not None:
        return
    for vendor in facts.vendors():
        key = vendor.record.card_index
        naming = [policy for policy in facts.policies if key in policy.text]
        if any(policy.denies for policy in naming):
            continue
        yield warning(
            "policy-missing",
            f"vendor {vendor.name}",
            f"no ValidatingAdmissionPolicy keeps pods' authors from writing {key}: {_policy_words(facts, naming)}; a "
            "forged record has memory counted that is not used, or hides memory that is",
            "install the extender's chart with admission.enabled=auto and admission.protectRecords=true",
        )


def _policy_words(facts: Facts, naming: Sequence[PolicyFacts]) -> str:
    if naming:
        return f"policy {naming[0].name} has no binding that denies"
    count = len(facts.policies)
    if not count:
        return "there is none at all"
    return "the one that there is does not name it" if count == 1 else f"none of the {count} that there are names it"


def check_clocks(facts: Facts) -> Iterator[Finding]:
    """Clocks that differ from the API server's."""
    for clock in facts.clocks:
        if abs(clock.ahead_s) - clock.within_s <= APART_S:
            continue
        direction = "ahead of" if clock.ahead_s > 0 else "behind"
        yield warning(
            "clocks-apart",
            clock.subject,
            f"its clock is {span(abs(clock.ahead_s))} {direction} the API server's (known to {clock.within_s:.1f} s)",
            "have the machine's time synchronised (chrony, systemd-timesyncd): tokens, certificates and the times in "
            "records and logs are wrong there",
        )


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


def check_unread(facts: Facts) -> Iterator[Finding]:
    """Report what could not be checked, so that silence never passes for health."""
    for each in facts.unread:
        if each.right:
            yield warning(
                "missing-right",
                "whoever runs this",
                f"cannot check {each.part.value}: missing right to {each.right}",
                "run it as a user who may, or grant that right; the other findings hold",
            )
        else:
            yield warning(
                "not-readable",
                "API server",
                f"cannot check {each.part.value}: {each.problem}",
                "try again; the other findings hold",
            )
