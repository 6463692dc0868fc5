"""A chain: which of its topics and jobs is in trouble."""

from ...snapshot import Chain
from ...snapshot.kinds.chain import Hop
from ...text import formatting as f
from ...text.codes import CAUSES
from ..finding import Finding, Fix, names, verb
from ..progress import CANNOT_TELL
from ..rules import DiagnosisInput, rule


@rule("hop-trouble", "Events", accounts_for=("stalled", "slow", "unknown"))
def hop_trouble(facts: DiagnosisInput) -> Finding | None:
    """A topic or job of a chain is stalled, falls behind, has a critical finding, or its state is not known. What comes
    after it may only lack its input.

    Recognised by: the verdict and the findings on the hop's own target.
    What to do: `wmtop check TARGET` for that target: it has the cause and the fix.
    """
    chain = facts.snapshot.target
    hops = _troubled(chain) if isinstance(chain, Chain) else []
    if not isinstance(chain, Chain) or not hops:
        return None
    verdict, who = chain.verdict.verdict, [hop.name for hop in hops]
    title = {
        "stalled": f"{names(who)} {verb(who, 'does', 'do')} not advance",
        "slow": f"{names(who)} {verb(who, 'falls', 'fall')} behind",
        "unknown": f"{CANNOT_TELL}: the state of {names(who)} is not known",
    }.get(verdict, f"Critical findings on {names(who)}")
    return Finding(
        severity="critical" if verdict == "stalled" or any(hop.critical for hop in hops) else "warning",
        size=float(chain.behind_ms or 0),
        channels=tuple(who),
        channel=None,
        title=title,
        impact="The hops after it get no newer event time from it",
        cause=" ".join(_hop_cause(chain, hop) for hop in hops),
        evidence=[f"{f.name(hop.name)}: {', '.join([hop.verdict or f.UNKNOWN, *hop.critical])}" for hop in hops],
        fixes=tuple(Fix(f"check-{hop.target}", f"Run wmtop check {f.clean(hop.target or hop.name)}") for hop in hops),
    )


def _troubled(chain: Chain) -> list[Hop]:
    """The first hops on their way with the chain's verdict, if that is not good, and those with a critical finding."""
    verdict = chain.verdict.verdict
    after: set[int] = set()
    found: list[Hop] = []
    for number in sorted(chain.joined):
        hop = chain.hops[number]
        is_bad = verdict in ("stalled", "slow", "unknown") and hop.verdict == verdict
        is_after = not after.isdisjoint(hop.proven)
        if hop.critical or (is_bad and not is_after):
            found.append(hop)
        if is_bad or is_after:
            after.add(number)
    return found


def _hop_cause(chain: Chain, hop: Hop) -> str:
    holder = chain.holder_in(hop)
    if holder is not None and hop.cause is not None:
        return f"{f.name(hop.name)}: {f.name(holder)} {CAUSES[hop.cause].one}."
    return f"{f.name(hop.name)}: {f.clean(hop.trouble or 'its own check has the cause')}."
