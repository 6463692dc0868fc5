"""Findings about a Flink job, in words. Pure."""

from ....engine.doctor.flink import (
    JobRestarts,
    LateDrops,
    OperatorBehind,
    OperatorKeepsBack,
    ReadsTooSlowly,
    SourceSendsNoWatermark,
)
from ....engine.text import formatting as f
from ..kinds import job_of
from .explanation import Context, Explainers, Explanation, n, names, only, span


def _restarts(it: JobRestarts, context: Context) -> Explanation:
    evidence = [f"{n(it.restarts, 'restart')}, the last one {span(it.ago_ms)} ago"]
    if it.every_ms is not None and it.restarts > 1:
        evidence.append(f"On average every {span(it.every_ms)} since the job was submitted")
    return Explanation(
        "The job fails and restarts again and again" if it.loop else "The job was restarted",
        f"{n(it.restarts, 'restart')}, the last one {span(it.ago_ms)} ago: work since the last checkpoint is repeated",
        "Flink reports no failure: it may have been rescaled."
        if it.error is None
        else f"Its last failure: {f.clean(it.error)}",
        evidence,
        ("Progress", "Operators"),
    )


def _late_drops(it: LateDrops, context: Context) -> Explanation:
    least = "≥ " if it.at_least else ""
    evidence = [f"{least}{n(it.late, 'record')} since the start, by numLateRecordsDropped of {names(it.tasks)}"]
    if it.recent is not None:
        part = "" if it.lost_share is None else f", {f.share(it.lost_share)} of what these operators took in"
        evidence.append(f"In the last {span(it.watched_ms)}: {f.count(it.recent)}{part}")
    return Explanation(
        "Window operators drop late records",
        f"{least}{n(it.late, 'record')} lost" + ("; none of them lately" if it.recent == 0 else ""),
        "The watermark had passed the end of their windows, and the allowed lateness.",
        [*evidence, "How late they are is not in Flink's REST API"],
        ("Operators",),
    )


def _no_watermark(it: SourceSendsNoWatermark, context: Context) -> Explanation:
    if it.fires:
        cause = "It fires all the same, so its windows go by processing time or by a trigger, and need no watermark."
    else:
        cause = "Without a watermark strategy, and without timestamps, Flink has no event time; records stay in state."
    return Explanation(
        "The source sends no watermark",
        "No effect on windows by processing time" if it.fires else "Windows by event time never fire",
        cause,
        [f"Records come from {names(it.channels)}, and its watermark is still Flink's lowest value"],
        ("Operators",),
        only(it.channels),
    )


def _behind(it: OperatorBehind, context: Context) -> Explanation:
    which = names(it.tasks)
    if it.behind_ms is None:
        title, impact = f"No watermark reaches {which}", "Its windows do not fire"
        cause = "No task that it reads has sent a watermark."
        if it.silent_input is not None:
            cause = f"{names((it.silent_input,))} sends none: it has sent no record that a watermark could come from."
    else:
        title = f"{which} {'is' if len(it.tasks) == 1 else 'are'} far behind"
        impact = f"Its windows fire {span(it.behind_ms)} of event time later"
        cause = "Its inputs are behind those of the operator that is shown."
    if it.stuck_ms is not None:
        title = f"The watermark of {names(it.tasks[:1])} is stuck for {span(it.stuck_ms)}"
        impact = "Its windows do not fire"
    shown = job_of(context.snapshot).chosen
    of = "another operator" if shown is None else names((shown.name,))
    return Explanation(title, impact, cause, [f"The verdict is about {of}, not about {which}"], ("Operators",))


def _keeps_back(it: OperatorKeepsBack, context: Context) -> Explanation:
    which = names((it.task,))
    return Explanation(
        f"{which} does not send on the watermark that it receives",
        f"No window below it has fired for {span(it.stuck_ms)}",
        "An operator in it waits: records that it has not passed on hold the watermark back.",
        [f"The watermark that it receives is past the one that it sends, which has not moved for {span(it.stuck_ms)}"],
        ("Operators",),
        only(it.channels),
    )


def _too_slow(it: ReadsTooSlowly, context: Context) -> Explanation:
    least = "≥ " if it.at_least else ""
    return Explanation(
        "The job does not catch up with its sources",
        f"The watermark is {span(it.behind_ms)} behind the clock",
        "Records wait to be read, and event time advances no faster than the clock.",
        [f"{least}{n(it.unread, 'record')} unread", f"Event time advances at ×{it.speed:.1f} of the clock"],
        ("Progress", "Operators"),
        only(it.channels),
    )


EXPLAINERS: Explainers = {
    ReadsTooSlowly: _too_slow,
    JobRestarts: _restarts,
    LateDrops: _late_drops,
    SourceSendsNoWatermark: _no_watermark,
    OperatorBehind: _behind,
    OperatorKeepsBack: _keeps_back,
}
