"""The rules that say what an operator's inputs do and who holds back its watermark: ordered tables, first match wins.

Two of Flink's rules are behind all of it: an operator's watermark is the minimum of the inputs that take part (Flink's
`StatusWatermarkValve`), and a subtask's is the minimum of its splits that are not idle (`WatermarkOutputMultiplexer`).
`docs/attribution.md` shows these tables, and the measured facts (F1 to F20) that they cite.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Literal, TypeVar

from msgspec import Struct

from ...snapshot import Cause, ChannelState
from ...watermarks.times import MAX, MIN
from .evidence import ChannelEvidence, InputEvidence, OperatorEvidence, SubtaskEvidence
from .facts import DUMP_MS, MIN_BUSY, passes_in_a_dump
from .samples import or_min, time_of

_Known = TypeVar("_Known")
_Answer = TypeVar("_Answer")
Activity = Literal["idle", "active", "not known"]
Participation = Literal["finished", "active", "left out", "not known"]
Suspect = Literal["no channel", "operator", "task or its input", "lowest channel"]


class Rule(Struct, Generic[_Known, _Answer], frozen=True):
    """A line of a table: if `when` is true of what is known, the answer is `then`."""

    name: str
    when: Callable[[_Known], bool]
    then: _Answer
    why: str


def first_match(rules: Sequence[Rule[_Known, _Answer]], known: _Known) -> _Answer:
    """The answer of the first rule that applies; the last rule of a table always does."""
    for rule in rules:
        if rule.when(known):
            return rule.then
    raise AssertionError("no rule applies")


def _always(_: object) -> bool:
    return True


# 1. Is a split idle, by itself?


def _is_passed(split: ChannelEvidence) -> bool:
    """Whether its subtask moved on past it although no record came from it."""
    sent, sent_before = split.subtask.sent, split.subtask.sent_before
    return split.has_moved is False and sent_before not in (None, sent) and split.is_below_sent


def _waits_for(split: ChannelEvidence) -> bool:
    """Whether records came from it while its subtask, which is past it, did not advance."""
    return split.has_moved is True and split.subtask.sent_before == split.subtask.sent and split.is_below_sent


SPLIT_RULES: Sequence[Rule[ChannelEvidence, Activity]] = (
    Rule("passed by its subtask", _is_passed, "idle",
         "A subtask moves on only past splits that are idle (F2)."),
    Rule("its subtask waits for it", _waits_for, "active",
         "Records come from it, and the subtask does not advance without it (F2)."),
    Rule("paused", lambda s: s.is_paused, "active",
         "Flink stops the idle timer of a split that watermark alignment pauses (F6)."),
    Rule("below its subtask, and read", lambda s: s.has_moved is True and s.is_below_sent, "not known",
         "A record came, and its subtask moved on past it: which was first is not known (F2)."),
    Rule("idle, and read", lambda s: s.has_moved is True and (s.now.idle_share == 1.0 or s.idle_time_grows is True),
         "not known", "It was idle, but a record came since the older sample: idle times are up to 5 s late (F3)."),
    Rule("idle all minute", lambda s: s.now.idle_share == 1.0, "idle",
         "It was idle for the whole last minute (F4)."),
    Rule("idle since its last record", lambda s: s.is_idle_since_read, "idle",
         "It was idle for longer in the last minute than fits before its last record (F4, F11)."),
    Rule("idle time grows", lambda s: s.idle_time_grows is True, "idle",
         "Its idle time grew between samples at least 5 s apart (F3)."),
    Rule("idle time is unchanged", lambda s: s.idle_time_grows is False, "active",
         "Its idle time did not grow between samples at least 5 s apart (F3)."),
    Rule("below its subtask", lambda s: s.is_below_sent, "not known",
         "It was idle, or has ended, when its subtask passed it; whether it is back cannot be seen yet (F2, F17)."),
    Rule("idle lately, and not read", lambda s: bool(s.now.idle_share) and s.subtask.reads_nothing, "not known",
         "It was idle in the last minute, and no record comes: a second sample will tell (F3, F4)."),
    Rule("no sign of idleness", _always, "active", "No metric shows that it is idle."),
)  # fmt: skip


# 2. Is it idle, seen together with the other splits of its subtask?


class SplitAmongOthers(Struct, frozen=True, gc=False):
    """A split, and what all splits of its subtask show together, each judged by itself."""

    split: ChannelEvidence
    all_are_past: bool
    """All active splits are past what the subtask sends: one that was idle between the samples may be back."""
    is_only_one: bool
    """The same, by more than what passes in a dump, and no split is there; of those below, it alone may be active."""
    follows_another: bool
    """An active split is at what the subtask sends."""


def _may_hold_from_below(split: ChannelEvidence) -> bool:
    return split.is_below_sent and (split.now.idle_share != 1.0 or split.has_moved is True)


SPLIT_AMONG_OTHERS_RULES: Sequence[Rule[SplitAmongOthers, Activity | None]] = (
    Rule("holds its subtask", lambda s: s.all_are_past and s.split.is_at_sent, "active",
         "All others are past what the subtask sends, so this one, back from idle, keeps it there (F2)."),
    Rule("holds its subtask from below",
         lambda s: s.is_only_one and _may_hold_from_below(s.split), "active",
         "All others are past what the subtask sends, so the one below it, back from idle, keeps it there (F2)."),
    Rule("may hold its subtask from below",
         lambda s: s.all_are_past and s.split.is_below_sent and s.split.now.watermark != MIN, "not known",
         "All others are past what the subtask sends, so one below it may be back from idle (F2)."),
    Rule("never read, its subtask follows another",
         lambda s: s.follows_another and s.split.now.watermark == MIN and s.split.now.idle_share is not None, "idle",
         "An active split keeps its subtask at or below itself, and none has ever come back without a record (F2)."),
    Rule("as by itself", _always, None, "The other splits do not show more."),
)  # fmt: skip


# 3. Does a subtask take part in the operator's minimum?


class SubtaskCase(Struct, frozen=True, gc=False):
    """A subtask, and whether all its splits are idle (without splits: its source reads nothing), and known to be."""

    subtask: SubtaskEvidence
    is_idle: bool
    is_known_idle: bool


def _reads_nothing_in_the_dump(case: SubtaskCase) -> bool:
    """Whether its source, of whose chain it is the end, read nothing while the dump was taken."""
    subtask = case.subtask
    return subtask.source is subtask.now and (subtask.source.source_idle_ms or 0) > DUMP_MS


def _is_back_below_another(case: SubtaskCase) -> bool:
    operator = case.subtask.operator
    return case.subtask.was_idle and operator.watermark == operator.least_sent and not _is_a_little_below(case)


def _is_a_little_below(case: SubtaskCase) -> bool:
    """Whether it is below the operator by no more than what both advance while a dump is taken."""
    subtask, operator = case.subtask, case.subtask.operator
    if operator.watermark == MAX or (operator.can_compare and subtask.sent == subtask.sent_before):
        return False
    own, sent = or_min(operator.watermark), or_min(subtask.sent)
    of_operator = passes_in_a_dump(own, operator.watermark_before, operator.apart_ms)
    return own - sent <= min(of_operator, passes_in_a_dump(sent, subtask.sent_before, operator.apart_ms))


SUBTASK_RULES: Sequence[Rule[SubtaskCase, Participation]] = (
    Rule("end of the stream", lambda s: s.subtask.sent == MAX, "finished",
         "It has sent Flink's last watermark: it sends it, or is FINISHED (F9)."),
    Rule("missing in the dump", lambda s: s.subtask.sent is None, "active",
         "What is not reported is not left out: it may be the lowest."),
    Rule("alone in its subtask", lambda s: s.subtask.operator.reads == "one", "active",
         "Each subtask of the operator has one input only, and waits for it, idle or not (F1, F18)."),
    Rule("below what the operator had reached",
         lambda s: or_min(s.subtask.sent) < or_min(s.subtask.operator.reached), "left out",
         "An operator's watermark is never above an input that takes part, also across two samples (F1, F5)."),
    Rule("all its splits are idle", lambda s: s.is_known_idle, "left out",
         "A subtask whose splits are all idle is idle, however high its watermark (F1, F2)."),
    Rule("not below the operator", lambda s: or_min(s.subtask.sent) >= or_min(s.subtask.operator.watermark), "active",
         "Nothing shows that the operator is past it (F1)."),
    Rule("all inputs are below the operator",
         lambda s: s.subtask.operator.least_sent is None and not _is_a_little_below(s), "not known",
         "The dump of one of them at least is older, and it is not known which is the lowest (F1, F5)."),
    Rule("reads nothing below the operator", _reads_nothing_in_the_dump, "left out",
         "Its dump is not just older: no record moved it while the dump was taken (F1, F11)."),
    Rule("stays below the operator",
         lambda s: s.is_idle and s.subtask.sent_before in (None, s.subtask.sent), "left out",
         "Its dump is not just older: it is idle and did not move, and the operator is past it (F1, F5)."),
    Rule("back below another input", _is_back_below_another, "left out",
         "A split of it was idle, and the operator is exactly at what another input sends (F1)."),
    Rule("a little below the operator", _is_a_little_below, "active",
         "The operator's values may be newer than its input's: a dump is not taken at one moment (F5)."),
    Rule("below the operator", _always, "not known",
         "It is left out, or its dump is older: a second sample will tell (F1, F5)."),
)  # fmt: skip


# 4. The state of a channel, and why its watermark is not greater.


class ChannelCase(Struct, frozen=True, gc=False):
    """A channel, and what the tables above say of its split and its subtask."""

    channel: ChannelEvidence
    subtask: SubtaskEvidence
    subtask_state: ChannelState
    is_idle: bool


def _was_never_read(case: ChannelCase) -> bool:
    """Whether nothing was read from it, as far as its watermark and offset tell."""
    now, subtask = case.channel.now, case.subtask
    if case.channel.is_split:
        return now.watermark in (None, MIN) and now.offset is None and not subtask.is_unmarked
    has_later = subtask.is_not_assigned or subtask.is_kept_back is not False
    is_without = case.subtask_state == "active" and subtask.sent == MIN and not has_later
    return is_without and (subtask.has_no_split or not subtask.is_unmarked)


def _has_unread_only(case: ChannelCase) -> bool:
    unread = case.channel.unread
    return unread is not None and unread.backlog > 0 and (case.subtask.reads_nothing or case.channel.has_moved is False)


def _stays_busy(case: ChannelCase) -> bool:
    """In both samples: any source is busy for a moment."""
    now, before = case.subtask.source, case.subtask.source_before
    return (now.busy or 0) >= MIN_BUSY and before is not None and (before.busy or 0) >= MIN_BUSY


def _has_more_unread_than_read(case: ChannelCase) -> bool:
    unread = case.channel.unread
    return unread is not None and unread.read is not None and unread.backlog > max(0, unread.read)


CHANNEL_RULES: Sequence[Rule[ChannelCase, tuple[ChannelState, Cause | None]]] = (
    Rule("idle, and alone in its subtask",
         lambda c: c.is_idle and c.subtask.operator.reads == "one" and c.channel.is_at_sent, ("idle", "quiet"),
         "It is idle, but a subtask of the operator has no other input, and waits for it (F1)."),
    Rule("idle", lambda c: c.is_idle or c.subtask_state == "idle", ("idle", None),
         "It is left out of its subtask's minimum, or its subtask out of the operator's (F1, F2)."),
    Rule("no split, no watermark assigned", lambda c: _was_never_read(c) and c.subtask.is_unmarked,
         ("never_seen", "no_watermark"), "The source reads records, but none of its subtasks sends a watermark (F8)."),
    Rule("no split", lambda c: _was_never_read(c) and c.subtask.has_no_split, ("never_seen", "no_split"),
         "Other subtasks of its source have splits; this one has none and so no watermark (F7)."),
    Rule("never read", _was_never_read, ("never_seen", "never_seen"), "It has no watermark and no offset (F7)."),
    Rule("finished", lambda c: c.subtask_state == "finished", ("finished", None),
         "Its subtask has ended and no longer holds back anything (F9)."),
    Rule("catching up", lambda c: c.subtask_state == "catching_up", ("catching_up", None),
         "Its subtask is active, but not in the operator's minimum until it has caught up (F1)."),
    Rule("not assigned yet", lambda c: c.subtask.is_not_assigned and c.subtask.operator.is_new, ("active", None),
         "Watermarks are assigned after the source, or may be, and the job is too new to say that none come (F8)."),
    Rule("no watermark assigned", lambda c: c.subtask.is_unmarked, ("active", "no_watermark"),
         "The source reads records, but none of its subtasks sends a watermark (F8)."),
    Rule("kept back by a task", lambda c: c.subtask.is_kept_back is True, ("active", "kept_back"),
         "A task that waits sends its watermark later than received, by no constant: no split is it (F8, F14, F15)."),
    Rule("paused by alignment", lambda c: c.channel.is_paused, ("active", "paused"),
         "Its paused time grew, or is since its last record; in 1.20: past the limit, and reads nothing (F6)."),
    Rule("back-pressured", lambda c: c.subtask.is_back_pressured, ("active", "back_pressured"),
         "Its source waits for a busy operator at least half of the time."),
    Rule("unread records, none read", _has_unread_only, ("active", "backlog"),
         "The broker has records that the source has not read, so it is not quiet (F10)."),
    Rule("at work on a record", lambda c: c.subtask.is_in_a_record, ("active", "slow_reader"),
         "Its source reads nothing and is not idle: its task is at work on a record (F16)."),
    Rule("source reads nothing", lambda c: c.subtask.reads_nothing, ("active", "quiet"),
         "The whole source subtask has had nothing to read for 5 s (F11)."),
    Rule("never assigned", lambda c: c.subtask.is_not_assigned, ("active", "stuck"),
         "A minute after the start, the operator that assigns watermarks has sent none, or no record has come (F8)."),
    Rule("unchanged, records not visible", lambda c: c.channel.has_moved is False and c.channel.now.offset is None,
         ("active", "stuck"), "Its watermark is frozen; without an offset it is not known whether records come (F7)."),
    Rule("unchanged, no records", lambda c: c.channel.has_moved is False, ("active", "quiet"),
         "Neither its watermark nor its offset has moved (F7)."),
    Rule("reads as fast as it can", _stays_busy, ("active", "slow_reader"), "It was busy in both samples (F13)."),
    Rule("more unread than read", _has_more_unread_than_read, ("active", "backlog"),
         "More is unread than was read between the samples; less would be gone with the next one (F10)."),
    Rule("behind", _always, ("active", "behind"), "Records come; its event times are the lowest."),
)  # fmt: skip


class JudgedChannel(Struct, frozen=True, gc=False):
    """State and cause of a channel; not `is_sure`: whether it is idle is not known, and the state is the likelier."""

    channel: ChannelEvidence
    state: ChannelState
    cause: Cause | None
    is_sure: bool

    @property
    def height(self) -> int:
        """Its watermark; `MIN` for none, and at its end."""
        return or_min(time_of(self.channel.now.watermark))


class JudgedInput(Struct, frozen=True):
    """State of a subtask and its channels; not `is_sure`: it may take part although it is below the operator."""

    subtask: SubtaskEvidence
    state: ChannelState
    is_sure: bool
    channels: list[JudgedChannel]


def judged(input: InputEvidence) -> JudgedInput:
    """By tables 1 to 4: the state of a subtask, and state and cause of each of its channels."""
    activities = _activities(input)
    idle = [
        activity == "idle" or (activity == "not known" and not channel.has_moved)
        for channel, activity in zip(input.channels, activities, strict=True)
    ]
    is_known_idle = bool(input.splits) and set(activities) == {"idle"}
    participation = first_match(SUBTASK_RULES, SubtaskCase(input.subtask, all(idle), is_known_idle))
    left_out: ChannelState = "idle" if all(idle) else "catching_up"
    if participation == "not known" and input.subtask.operator.least_sent is None:
        state: ChannelState = "active"  # one of the inputs at least has an older dump
    else:
        state = left_out if participation in ("left out", "not known") else participation
    channels: list[JudgedChannel] = []
    for channel, activity, is_idle in zip(input.channels, activities, idle, strict=True):
        case = ChannelCase(channel, input.subtask, state, is_idle and channel.is_split)
        channels.append(JudgedChannel(channel, *first_match(CHANNEL_RULES, case), activity != "not known"))
    return JudgedInput(input.subtask, state, participation != "not known", channels)


def _activities(input: InputEvidence) -> list[Activity]:
    """For each channel whether it is idle: left out of its subtask's minimum, or a subtask without data, not paused."""
    subtask, splits, sent = input.subtask, input.splits, input.subtask.sent
    if not splits:
        return ["idle" if subtask.reads_nothing and not input.channels[0].is_paused else "active"]
    alone: list[Activity] = [first_match(SPLIT_RULES, split) for split in splits]
    if sent is None or sent == MIN:
        return alone
    pairs = zip(splits, alone, strict=True)
    watermarks = [split.now.watermark for split, activity in pairs if activity == "active"]
    active = [watermark for watermark in watermarks if watermark is not None]
    ahead_ms = min(active, default=sent) - sent
    gap_ms = passes_in_a_dump(sent, subtask.sent_before, subtask.operator.apart_ms)
    is_gap = ahead_ms > gap_ms and not any(split.is_at_sent for split in splits)
    is_only_one = is_gap and sum(_may_hold_from_below(split) for split in splits) == 1
    among_others = (SplitAmongOthers(split, ahead_ms > 0, is_only_one, sent in active) for split in splits)
    together: list[Activity | None] = [first_match(SPLIT_AMONG_OTHERS_RULES, split) for split in among_others]
    return [answer or by_itself for answer, by_itself in zip(together, alone, strict=True)]


# 5. Who holds back the operator's watermark?


class Minimum(Struct, frozen=True):
    """The operator, and what the tables above say of its inputs."""

    operator: OperatorEvidence
    inputs: Sequence[JudgedInput]
    part: Sequence[JudgedInput]
    """The inputs in the minimum."""
    lowest: JudgedInput | None
    """The lowest of them."""
    suspect: JudgedChannel | None
    """Its lowest channel that has a cause."""

    @property
    def needs_another_sample(self) -> bool:
        """Whether another sample may tell what is not known of the operator or of the suspect."""
        if self.operator.watermark in (None, MAX):  # its records may not have ended (F19)
            return not self.operator.can_compare
        return _is_behind_all(self) or _may_be_kept_back(self) or _may_have_turned_idle(self)


def minimum_of(operator: OperatorEvidence, inputs: Sequence[JudgedInput]) -> Minimum:
    """The inputs in the operator's minimum and the lowest of them: of equal ones the one that was lower before, since
    the values are not of one moment.
    """
    part = [input for input in inputs if input.state == "active" and input.subtask.sent is not None]

    def height(input: JudgedInput) -> tuple[int, bool, int]:
        has_no_suspect = all(channel.cause is None for channel in input.channels)
        return or_min(input.subtask.sent), has_no_suspect, or_min(input.subtask.sent_before)

    lowest = min(part, key=height, default=None)
    suspects = [channel for channel in ([] if lowest is None else lowest.channels) if channel.cause is not None]
    return Minimum(operator, inputs, part, lowest, min(suspects, key=lambda suspect: suspect.height, default=None))


def _is_behind_all(minimum: Minimum) -> bool:
    """Whether the operator is further below all its inputs, or in one sample alone the lowest of them further below all
    its active splits, than passes while a dump is taken.
    """
    lowest, operator = minimum.lowest, minimum.operator
    if lowest is None or _waits_before_operator(minimum):
        return False
    sent = or_min(lowest.subtask.sent)
    splits = (each.height for each in lowest.channels if each.channel.is_split and each.state == "active")
    ahead_ms = 0 if operator.apart_ms else min(splits, default=sent) - sent
    most_ms = passes_in_a_dump(sent, lowest.subtask.sent_before, operator.apart_ms)
    return max(ahead_ms, sent - or_min(operator.watermark)) > most_ms


def _may_be_kept_back(minimum: Minimum) -> bool:
    return minimum.lowest is not None and minimum.lowest.subtask.is_kept_back is None


def _waits_before_operator(minimum: Minimum) -> bool:
    watermark = or_min(minimum.operator.watermark)
    all_were_past = all(watermark < or_min(input.subtask.sent_before) for input in minimum.part)
    return all_were_past and watermark != MIN and minimum.operator.reads != "some"


def _lowest_may_be_missing(minimum: Minimum) -> bool:
    """Whether an input is missing in the dump, or may take part, and the operator is not at the lowest other one."""
    is_missing = any(
        not input.is_sure or (input.state == "active" and input.subtask.sent is None) for input in minimum.inputs
    )
    lowest = None if minimum.lowest is None else minimum.lowest.subtask.sent
    return is_missing and or_min(lowest) != or_min(minimum.operator.watermark)


def _may_have_turned_idle(minimum: Minimum) -> bool:
    """Whether no record comes from the suspect, and no channel is ahead that would show that it is idle by now."""
    suspect = minimum.suspect
    if suspect is None or suspect.cause not in ("quiet", "stuck") or suspect.channel.stays_active:
        return False
    running = [input for input in minimum.inputs if input.state != "finished"]
    reached = [or_min(time_of(input.subtask.sent)) for input in running]
    heights = (each.height for input in running for each in input.channels)
    return max(*heights, *reached) <= max(suspect.height, or_min(suspect.channel.subtask.sent))


def _may_be_another(minimum: Minimum) -> bool:
    """Whether there is no suspect, or it is not known if it, or a lower channel that seems to be idle, is idle."""
    lowest, suspect = minimum.lowest, minimum.suspect
    if lowest is None or suspect is None:
        return True
    is_unsure = any(not each.is_sure and each.height <= suspect.height for each in lowest.channels)
    has_timeout = suspect.channel.subtask.was_idle
    return is_unsure or not lowest.is_sure or (has_timeout and _may_have_turned_idle(minimum))


HOLDER_RULES: Sequence[Rule[Minimum, Suspect]] = (
    Rule("end of the stream", lambda m: m.operator.watermark == MAX, "no channel",
         "The operator has Flink's last watermark (F9, F19)."),
    Rule("operator missing in the dump", lambda m: m.operator.watermark is None, "no channel",
         "The operator's watermark is not known, as before its tasks run (F20)."),
    Rule("no input takes part", lambda m: m.lowest is None, "no channel",
         "All inputs are idle, finished or catching up (F1)."),
    Rule("lowest input may be missing", _lowest_may_be_missing, "no channel",
         "An input that is missing in the dump, or whose part is not known, may be the lowest: the operator is not at"
         " the lowest other one."),
    Rule("behind all its inputs", _is_behind_all, "no channel",
         "It has records to process first, or its dump is older: a second sample will tell (F5, F12)."),
    Rule("records wait before the operator", _waits_before_operator, "operator",
         "All inputs were past its watermark before, and it reads all: it has records to process first (F12, F18)."),
    Rule("kept back, or always later", _may_be_kept_back, "task or its input",
         "A task sends its watermark later than received; if neither moves, it waits, or always does so (F8)."),
    Rule("cannot tell yet", _may_be_another, "no channel",
         "No channel of the lowest input has a cause yet, or it is not known if it, or a lower one, is idle (F3)."),
    Rule("lowest channel", _always, "lowest channel",
         "It is the lowest channel that is not idle, in the lowest input that takes part (F1, F2)."),
)  # fmt: skip
