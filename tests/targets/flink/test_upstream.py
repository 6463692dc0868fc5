"""Which splits are behind an operator that is not fed by its sources directly; times in ms from an arbitrary start."""

from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.flink.attribution import Attribution
from wmtop.engine.targets.flink.facts import FlinkFacts, with_sample
from wmtop.engine.targets.flink.samples import (
    Edge,
    Graph,
    JobSample,
    ListedJob,
    Rates,
    SampledSplit,
    Subtask,
    Vertex,
    VertexSample,
    sample_of,
    wanted,
)
from wmtop.engine.targets.flink.upstream import operators
from wmtop.engine.watermarks.times import MAX, MIN

from tests.snapshots import replace

from .attributed import attributed, attributed_from, snapshot


def source(id: str, *outputs: int, splits: tuple[int, ...] | None = None) -> VertexSample:
    """A source whose subtasks have one split each."""
    marks = outputs if splits is None else splits
    tasks = tuple(
        Subtask(i, output=out, splits=(SampledSplit(f"{id}-{i}", mark, idle_share=0.0),))
        for i, (out, mark) in enumerate(zip(outputs, marks, strict=True))
    )
    return VertexSample(Vertex(id, f"Source: {id}", len(outputs), "RUNNING"), tasks)


def task(
    id: str, above: str, taken: int, sent: int, *, name: str | None = None, windowed: bool = False, delay_ms: int = 0
) -> VertexSample:
    """A task with two subtasks that reads the vertices `above`, one letter each, through a shuffle."""
    inputs = tuple(Edge(one, forward=False) for one in above)
    subtasks = tuple(Subtask(i, input=taken, output=sent, late={"w": 0} if windowed else {}) for i in range(2))
    vertex = Vertex(id, name or f"Task {id}", 2, "RUNNING", inputs, delay_ms=delay_ms)
    return VertexSample(vertex, subtasks, windowed)


def attribution(*samples: tuple[VertexSample, ...]) -> Attribution:
    """The attribution of the last sample; they are 10 s apart."""
    dumps = [JobSample(10_000 * number, vertices) for number, vertices in enumerate(samples)]
    return attributed(dumps[-1], dumps[-2] if len(dumps) > 1 else None)


def watched(*samples: tuple[VertexSample, ...]) -> Attribution:
    """The attribution of the last sample, all of which were seen; they are 10 s apart."""
    facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 0), 0), answered_ms=0)
    for number, vertices in enumerate(samples):
        facts = with_sample(facts, JobSample(10_000 * number, vertices))
    return attributed_from(facts)


def names(found: Attribution) -> list[str]:
    return [one.channel for one in found.channels]


def test_the_splits_behind_a_join_hold_the_window_after_it() -> None:
    def at(left: int, right: int, level: int) -> tuple[VertexSample, ...]:
        joined = task("j", "lr", level, level), task("w", "j", level, level, windowed=True)
        return source("l", left, left + 1), source("r", left, right), *joined

    found = attribution(at(80, 10, 10), at(90, 10, 10))
    assert names(found) == ["l-0", "l-1", "r-0", "r-1"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.instance, found.held_in) == ("r-1", 3, "r")
    steps = found.blockers
    assert steps is not None
    assert (steps[0].channels, steps[0].gain_ms) == (["r-1"], 80)


def test_a_task_that_makes_watermarks_of_its_own_is_an_end() -> None:
    """Assigned after the source, or held back by the operator: the sources do not say where its watermark is."""
    for name, sent in (("Timestamps/Watermarks", 90), ("Task j", 40)):
        vertices = (source("s", 90, 95), task("j", "s", 90, sent, name=name), task("w", "j", sent, sent, windowed=True))
        assert names(attribution(vertices, vertices)) == ["#0", "#1"]


def test_a_watermark_that_passes_while_the_dump_is_taken_is_passed_on() -> None:
    def at(sent: int, taken: int) -> tuple[VertexSample, ...]:
        return source("s", taken, taken + 5), task("j", "s", taken, sent), task("w", "j", sent, sent, windowed=True)

    for sent in (60, 79, 80, 81):
        assert names(attribution(at(60, 60), at(sent, 80))) == ["s-0", "s-1"], sent
    assert names(attribution(at(40, 60), at(50, 80))) == ["#0", "#1"]  # always 20 to 30 behind what it takes in
    assert names(attribution(at(4_000, 5_000))) == ["s-0", "s-1"]  # one sample alone: no more than passes in a dump
    assert names(attribution(at(4_000, 5_001))) == ["#0", "#1"]


def test_a_source_that_is_read_on_several_ways_counts_once() -> None:
    vertices = (
        source("s", 10, 20), task("a", "s", 10, 10), task("b", "s", 10, 10), task("w", "abs", 10, 10, windowed=True)
    )  # fmt: skip
    assert names(attribution(vertices)) == ["s-0", "s-1"]
    twice = (source("s", 10, 20), task("w", "ss", 10, 10, windowed=True))
    assert names(attribution(twice)) == ["s-0", "s-1"]


def test_records_that_wait_before_a_task_in_the_middle_are_in_flight_there() -> None:
    def at(time: int) -> tuple[VertexSample, ...]:
        return source("s", time, time), task("j", "s", 10, 10), task("w", "j", 10, 10, windowed=True)

    held = attribution(at(50), at(90)).held_back_by
    assert held is not None
    assert (held.channel, held.cause, held.instance) == ("Task j", "in_flight", None)


def test_a_source_whose_watermarks_are_assigned_later_is_not_said_to_have_none() -> None:
    """Its records have not reached the operator that assigns them: what holds them up is not known."""
    plain = source("s", MIN, MIN, splits=(MIN, MIN))
    window = task("w", "s", MIN, MIN, windowed=True)
    for name, cause in (("Source: s -> Map", "no_watermark"), ("Source: s -> Map -> Timestamps/Watermarks", None)):
        chain = replace(plain, vertex=replace(plain.vertex, name=name), rates=Rates(taken=20.0))
        found = attribution((chain, window), (chain, window))
        assert [one.state for one in found.channels] == ["active", "active"]
        assert (None if found.held_back_by is None else found.held_back_by.cause) == cause


def test_a_source_whose_watermarks_are_never_assigned_is_named_after_a_minute() -> None:
    """Its operator drops all records, or its generator never emits: no watermark comes, however long one waits."""
    plain = source("a", MIN, MIN, splits=(MIN, MIN))
    name = "Source: a -> Timestamps/Watermarks"
    silent = replace(plain, vertex=replace(plain.vertex, name=name), rates=Rates(taken=20.0))
    window = task("w", "ab", MIN, MIN, windowed=True)
    facts = FlinkFacts(
        graph=Graph(
            ListedJob("1", "orders", "RUNNING", 0), 0, tuple(one.vertex for one in (silent, source("b", 9), window))
        ),
        answered_ms=0,
        samples=tuple(JobSample(at, (silent, source("b", at), window)) for at in (10_000, 20_000)),
    )

    def at(now_ms: int) -> Snapshot:
        shown = replace(facts, graph=replace(facts.graph, now_ms=now_ms), answered_ms=now_ms)
        return snapshot(shown, now_ms)

    assert (at(59_000).level.holder, at(59_000).blockers) == (None, None)
    old = at(60_000)
    assert old.level.holder is not None
    assert (old.level.holder.channel, old.level.holder.cause) == (f"{name} #0", "stuck")
    assert old.blockers is not None
    assert (old.blockers[0].channels, old.blockers[0].cause) == ([f"{name} #0", f"{name} #1"], "stuck")


def test_splits_of_the_same_id_in_two_sources_are_two_channels() -> None:
    """Both sources read the same topic; their operators may even have the same name."""

    def at(name: str, slow: int) -> tuple[VertexSample, ...]:
        left, right = source("s", 90, 95), source("s", 90, slow)
        right = replace(right, vertex=replace(right.vertex, id="r", name=name))
        return left, right, task("w", "sr", slow, slow, windowed=True)

    for name, label in (("Source: again -> Map", "again"), ("Source: s", "s 2")):
        found = attribution(at(name, 10), at(name, 10))
        assert names(found) == ["s-0 (s)", "s-1 (s)", f"s-0 ({label})", f"s-1 ({label})"]
        assert found.held_back_by is not None
        holder = found.held_back_by
        assert (holder.channel, holder.instance, found.held_in) == (f"s-1 ({label})", 3, "r")
        steps = found.blockers
        assert steps is not None
        assert (steps[0].channels, steps[0].channel_count) == ([f"s-1 ({label})"], 1)


def test_subtasks_of_two_sources_of_one_name_are_distinct() -> None:
    bare = VertexSample(Vertex("s", "Source: in -> Map", 1, "RUNNING"), (Subtask(0, output=10),))
    twin = replace(bare, vertex=replace(bare.vertex, id="r"), subtasks=(Subtask(0, output=90),))
    found = attribution((bare, twin, task("w", "sr", 10, 10, windowed=True)))
    assert names(found) == ["Source: in -> Map #0", "Source: in 2 -> Map #0"]


def test_an_idle_split_behind_a_join_is_left_out() -> None:
    def at(level: int, slow: int) -> tuple[VertexSample, ...]:
        return source("s", level, slow), task("j", "s", level, level), task("w", "j", level, level, windowed=True)

    found = attribution(at(50, 10), at(90, 10))
    assert found.watermark_ms == 90
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "s-0"
    assert [one.state for one in found.subtasks] == ["active", "catching_up"]


def test_watermarks_that_are_assigned_after_the_source_belong_to_its_subtasks() -> None:
    """Flink leaves all splits at MIN then: they are neither idle nor without data."""

    def at(fast: int, slow: int) -> tuple[VertexSample, ...]:
        return source("s", fast, slow, splits=(MIN, MIN)), task("w", "s", slow, slow, windowed=True)

    found = attribution(at(50, 10), at(90, 20))
    assert [(one.channel, one.watermark_ms, one.state) for one in found.channels] == [
        ("#0", 90, "active"), ("#1", 20, "active"),
    ]  # fmt: skip
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "#1"


def joined(left: int, right: int, sent: int, *, delay_ms: int = 30) -> tuple[VertexSample, ...]:
    """Two sources, a task that takes in the lower of them and sends `sent`, and a window behind it."""
    join, window = task("j", "lr", min(left, right), sent, delay_ms=delay_ms), task("w", "j", sent, sent, windowed=True)
    return source("l", left, left), source("r", right, right + 40), join, window


def test_the_delay_of_a_join_is_carried_upstream_to_the_split() -> None:
    found = attribution(joined(500, 100, 70), joined(600, 200, 170))
    assert [(one.channel, one.watermark_ms, found.delays.get(one.channel, 0)) for one in found.channels] == [
        ("l-0", 570, 30), ("l-1", 570, 30), ("r-0", 170, 30), ("r-1", 210, 30),
    ]  # fmt: skip
    assert found.watermark_ms == 170
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause, found.held_in) == ("r-0", "behind", "r")
    steps = found.blockers
    assert steps is not None
    assert (steps[0].channels, steps[0].gain_ms) == (["r-0"], 40)
    once = attribution(joined(500, 100, 70))
    assert once.held_back_by is not None
    assert once.held_back_by.channel == "r-0"


def test_a_difference_that_the_plan_does_not_name_is_an_end() -> None:
    """The task keeps records back: its watermark does not move with the one that it receives."""

    def at(right_s: int, sent_s: int, *, delay_ms: int = 0) -> tuple[VertexSample, ...]:
        return joined(900_000, right_s * 1_000, sent_s * 1_000, delay_ms=delay_ms)

    for samples in (
        [at(100, 70), at(120, 70)],
        [at(100, 70), at(120, 85)],
        [at(100, 70), at(120, 70), at(120, 70), at(120, 70)],  # also when nothing moves any more
        [at(100, 70), at(120, 90), at(200, 90), at(300, 90)],  # it always sent its watermark later, and now it waits
        [at(200, 70, delay_ms=30_000), at(300, 70, delay_ms=30_000)],
    ):
        found = watched(*samples)
        assert names(found) == ["#0", "#1"]
        assert found.held_back_by is not None
        assert (found.held_back_by.cause, found.held_in) == ("kept_back", "j")


def test_a_task_that_always_sends_its_watermark_later_is_not_to_blame() -> None:
    """An operator of the job's own that subtracts a constant: once it was seen to move, the split behind it holds."""
    old, new = joined(500, 100, 70, delay_ms=0), joined(600, 120, 90, delay_ms=0)
    for samples in ([old, new], [old, new, new, new]):  # also when nothing moves any more
        found = watched(*samples)
        assert [(one.channel, one.watermark_ms, found.delays[one.channel]) for one in found.channels][2:] == [
            ("r-0", 90, 30), ("r-1", 130, 30),
        ]  # fmt: skip
        assert found.held_back_by is not None
        assert (found.held_back_by.channel, found.held_in) == ("r-0", "r")


def frozen(*sent_s: int, between: str = "", busy: float = 0.0) -> Attribution:
    """By two equal samples: a task behind the source, in its chain or not, has received 70 s and sends `sent_s`."""
    marks = [{"Source__in": 70_000, "lookup": sent * 1_000} for sent in sent_s]
    below_it = below(min(sent_s) * 1_000)
    if between == "chained":
        vertices = [chain("Source: in -> lookup", *marks, splits=(70_000,) * len(sent_s)), *below_it]
    else:
        tasks = tuple(Subtask(i, input=70_000, output=sent * 1_000) for i, sent in enumerate(sent_s))
        edge = Edge("s", forward=between == "forward")
        lookup = VertexSample(Vertex("l", "lookup", len(sent_s), "RUNNING", (edge,)), tasks)
        last = task("w", "l", min(sent_s) * 1_000, min(sent_s) * 1_000, windowed=True)
        vertices = [source("s", *(70_000 for _ in sent_s)), lookup, last]
    vertices = [
        replace(one, subtasks=tuple(replace(subtask, busy=busy) for subtask in one.subtasks)) for one in vertices
    ]
    return watched(*[tuple(vertices)] * 3)


def test_whether_a_task_waits_or_always_sends_later_is_not_known_where_nothing_moves() -> None:
    """Its input may have stopped: then a split is to blame, and not the task."""
    for between in ("chained", "forward", "shuffled"):
        found = frozen(10, 10, between=between)
        assert (names(found), found.held_back_by, found.blockers, found.is_sure) == (["#0", "#1"], None, None, False)


def test_a_task_that_is_busy_or_sends_unlike_another_subtask_waits_also_where_nothing_moves() -> None:
    """Async I/O whose queue is full takes in nothing more: Flink reports it as busy."""
    for between in ("chained", "forward", "shuffled"):
        for found in (frozen(10, 10, between=between, busy=1.0), frozen(10, 70, between=between)):
            assert found.held_back_by is not None
            assert (found.held_back_by.channel, found.held_back_by.cause) == ("#0", "kept_back")
            assert found.held_in == ("s" if between == "chained" else "l")


def test_a_task_beside_the_source_that_always_sends_its_watermark_later_is_not_to_blame() -> None:
    def at(second: int) -> tuple[VertexSample, ...]:
        mark = second * 1_000
        tasks = tuple(Subtask(i, input=mark, output=mark - 30_000) for i in range(2))
        later = VertexSample(Vertex("l", "later", 2, "RUNNING", (Edge("s", forward=True),)), tasks)
        return source("s", mark, mark), later, task("w", "l", mark - 30_000, mark - 30_000, windowed=True)

    found = watched(at(50), at(60), at(60), at(60))
    assert [(one.channel, one.watermark_ms, found.delays[one.channel]) for one in found.channels] == [
        ("s-0", 30_000, 30_000), ("s-1", 30_000, 30_000),
    ]  # fmt: skip
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("s-0", "stuck")


def test_an_operator_chained_to_the_source_may_always_send_its_watermark_later() -> None:
    def at(first: int, second: int) -> tuple[VertexSample, ...]:
        marks = [{"Source__in": mark, "later": mark - 30} for mark in (first, second)]
        return chain("Source: in -> later", *marks, splits=(first, second)), *below(min(first, second) - 30)

    found = watched(at(70, 40), at(90, 50), at(900, 50), at(900, 50))
    assert [(one.channel, one.watermark_ms, found.delays[one.channel]) for one in found.channels] == [
        ("i-0", 870, 30), ("i-1", 20, 30),
    ]  # fmt: skip
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("i-1", "stuck")


def test_a_task_of_two_inputs_of_which_one_is_idle_has_received_what_it_sends() -> None:
    """Flink reports the watermark of the idle input as received, however far the task is past it."""

    def at(second: int) -> tuple[VertexSample, ...]:
        rules = replace(source("l", 10_000), subtasks=(Subtask(0, output=10_000, source_idle_ms=60_000),))
        events = source("r", second * 1_000, second * 1_000 + 500)
        applied = task("j", "lr", 10_000, second * 1_000)
        return rules, events, applied, task("w", "j", second * 1_000, second * 1_000, windowed=True)

    found = watched(at(40), at(50), at(60))
    assert [one.state for one in found.channels] == ["idle", "active", "active"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_in) == ("r-0", "r")
    windows = (task("j", "lr", 10_000, second * 1_000, windowed=True) for second in (50, 60))
    chosen = watched(*((*at(second)[:2], window) for second, window in zip((50, 60), windows, strict=True)))
    assert chosen.watermark_ms == 60_000


def test_a_watermark_that_passes_does_not_undo_a_delay() -> None:
    found = attribution(joined(500, 200, 170), joined(700, 300, 220))
    assert names(found) == ["l-0", "l-1", "r-0", "r-1"]


def test_of_two_ways_the_more_delayed_one_counts() -> None:
    def at(time: int) -> tuple[VertexSample, ...]:
        near, far = task("a", "s", time, time), task("j", "a", time, time - 30, delay_ms=30)
        return source("s", time, time), near, far, task("w", "aj", time - 30, time - 30, windowed=True)

    assert [one.watermark_ms for one in attribution(at(100), at(200)).channels] == [170, 170]


def test_a_source_that_reads_records_and_sends_no_watermark_has_data() -> None:
    """Without a watermark strategy all stays at MIN; a split that was never read does, too."""

    def at(rate: float, marks: tuple[int, int] = (MIN, MIN)) -> tuple[VertexSample, ...]:
        return replace(source("s", *marks), rates=Rates(taken=rate)), task("w", "s", MIN, MIN, windowed=True)

    found = attribution(at(7.0))
    assert [one.state for one in found.channels] == ["active", "active"]
    assert found.held_back_by is not None
    assert found.held_back_by.cause == "no_watermark"
    unknown = replace(source("s", MIN, MIN), rates=Rates(taken=7.0))  # Flink 1.20 does not report splits' watermarks
    unknown = replace(unknown, subtasks=tuple(replace(one, splits=(SampledSplit("a"),)) for one in unknown.subtasks))
    window = task("w", "s", MIN, MIN, windowed=True)
    for vertices in (at(0.0), at(7.0, (MIN, 50)), (unknown, window)):
        found = attribution(vertices)
        assert found.held_back_by is not None
        assert (found.channels[0].state, found.held_back_by.cause) == ("never_seen", "never_seen")


def test_a_source_subtask_without_a_split_is_said_to_have_none() -> None:
    alone = replace(source("s", 50, MIN), rates=Rates(taken=1.0))
    bare = replace(alone, subtasks=(alone.subtasks[0], replace(alone.subtasks[1], splits=())))
    found = attribution((bare, task("w", "s", MIN, MIN, windowed=True)))
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("#1", "no_split")


def test_the_end_of_the_stream_behind_a_delay_is_no_time() -> None:
    vertex = Vertex("j", "IntervalJoin[7]", 1, "RUNNING", (Edge("s", forward=False),))
    ids = ["0.currentInputWatermark", "0.IntervalJoin[7].currentOutputWatermark"]
    sample, _ = sample_of(vertex, ids, {ids[0]: str(MAX), ids[1]: str(MAX - 30_000)})
    assert sample.subtasks[0].output == MAX


def chain(name: str, *outputs: dict[str, int], splits: tuple[int, ...] = ()) -> VertexSample:
    """A source vertex from the values of its operators' outputs, by subtask, with a split each."""
    vertex = Vertex("s", name, len(outputs), "RUNNING")
    values = {
        f"{index}.{operator}.currentOutputWatermark": str(mark)
        for index, marks in enumerate(outputs)
        for operator, mark in marks.items()
    }
    values |= {f"{i}.Source__in.split.i-{i}.watermark.currentWatermark": str(mark) for i, mark in enumerate(splits)}
    found, whole = sample_of(vertex, list(values), values)
    assert whole
    return found


def below(*levels: int) -> list[VertexSample]:
    """Window tasks that read the source, one for each level."""
    return [task(f"w{place}", "s", level, level, windowed=True) for place, level in enumerate(levels)]


def test_a_chain_with_branches_sends_what_leads_to_the_operator() -> None:
    def at(slow: int, fast: int) -> tuple[VertexSample, ...]:
        first = {"Source__in": fast, "left": fast, "right": fast, "Sink__Writer": MIN}
        second = {"Source__in": slow, "left": slow, "right": slow, "Sink__Writer": MIN}
        name = "Source: in -> (left, right, Map -> Sink: Writer)"
        return chain(name, first, second, splits=(fast, slow)), *below(slow, slow)

    found = attribution(at(10, 80), at(20, 90))
    assert [one.watermark_ms for one in found.subtasks] == [90, 20]
    assert [one.state for one in found.channels] == ["active", "active"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause) == ("i-1", "behind")


def test_of_branches_with_watermarks_of_their_own_each_operator_has_its_own() -> None:
    """SQL with mini-batches: one branch sends its watermark at intervals only."""

    def at(batched: int, direct: int) -> JobSample:
        first = {"Source__in": MIN, "WatermarkAssigner[2]": direct + 9, "MiniBatchAssigner[3]": batched + 9}
        second = {"Source__in": MIN, "WatermarkAssigner[2]": direct, "MiniBatchAssigner[3]": batched}
        name = "Source: in -> (Calc[1] -> WatermarkAssigner[2], WatermarkAssigner[4] -> MiniBatchAssigner[3])"
        return JobSample(batched, (chain(name, first, second, splits=(MIN, MIN)), *below(batched, direct)))

    old, new = at(10_000, 14_000), at(20_000, 24_000)
    for operator, level in zip(new.vertices[1:], (20_000, 24_000), strict=True):
        found = attributed(new, old, operator=operator.vertex.id)
        assert (found.watermark_ms, [one.watermark_ms for one in found.subtasks]) == (level, [level + 9, level])
        assert found.held_back_by is not None
        assert found.held_back_by.channel == "#1"


def test_an_operator_chained_to_the_source_may_keep_the_watermark_back() -> None:
    """Async I/O without an answer: no split is to blame."""

    def at(second: int) -> tuple[VertexSample, ...]:
        marks = {"Source__in": second * 1_000, "lookup": 10_000}
        return chain("Source: in -> lookup", marks, marks, splits=(second * 1_000,) * 2), *below(10_000)

    found = watched(at(40), at(70))
    assert names(found) == ["#0", "#1"]
    assert found.held_back_by is not None
    assert (found.held_back_by.channel, found.held_back_by.cause, found.held_in) == ("#0", "kept_back", "s")


def test_windows_chained_to_their_source_are_below_its_splits() -> None:
    """Each subtask's windows receive what its chain sends before them."""
    made = source("s", 70, 20)
    vertex = replace(made.vertex, name="Source: s -> Window -> Sink: Writer")
    tasks = [replace(one, input=one.output, output=None, late={"w": 0}) for one in made.subtasks]
    other = task("w", "s", 15, 15, windowed=True)
    now = VertexSample(vertex, tuple(tasks), windowed=True)
    found = attribution((now,), (now,))
    assert (found.operator, found.watermark_ms, names(found)) == ("s", 20, ["s-0", "s-1"])
    assert found.held_back_by is not None
    assert found.held_back_by.channel == "s-1"
    assert [one.vertex.id for one in operators(JobSample(0, (now, other)))] == ["s", "w"]
    unwindowed = replace(now, windowed=False)
    assert [one.vertex.id for one in operators(JobSample(0, (unwindowed, task("m", "s", 15, 15))))] == ["m", "s"]


def test_a_source_is_not_without_data_where_an_operator_chained_to_it_waits() -> None:
    marks = {"Source__in": 70_000, "lookup": 10_000}
    waits = chain("Source: in -> lookup", marks, marks, splits=(70_000, 70_000))
    now = replace(waits, subtasks=tuple(replace(one, source_idle_ms=90_000) for one in waits.subtasks)), *below(10_000)
    assert [one.quiet_ms for one in attribution(now, now).channels] == [None, None]


def test_watermarks_assigned_again_after_the_source_are_not_those_of_the_splits() -> None:
    for name, later in (("Timestamps/Watermarks", -60), ("stamps", 20)):

        def at(split: int, other: int, name: str = name, later: int = later) -> tuple[VertexSample, ...]:
            first = {"Source__in": split, name: split + later}
            second = {"Source__in": other, name: other + later}
            whole = f"Source: in -> {name}"
            return chain(whole, first, second, splits=(split, other)), *below(min(split, other) + later)

        found = attribution(at(100, 90), at(105, 95))
        assert names(found) == ["#0", "#1"]
        assert [one.state for one in found.channels] == ["active", "active"]
        assert found.held_back_by is not None
        assert (found.held_back_by.channel, found.held_back_by.cause) == ("#1", "behind")


def test_a_task_whose_dump_is_newer_at_one_end_still_passes_its_watermark_on() -> None:
    def at(time: int, *, sent: int) -> tuple[VertexSample, ...]:
        return source("s", time, time), task("m", "s", time, sent), task("w", "m", time, time, windowed=True)

    found = attribution(at(10_000, sent=10_200), at(20_000, sent=20_300))
    assert names(found) == ["s-0", "s-1"]


def test_without_windows_a_join_is_chosen_before_a_task_with_one_input() -> None:
    """A temporal join: its results wait for the versioned table, and the orders do not show that."""
    table = task("d", "r", 10, 10, name="Deduplicate[1]")
    joined = task("j", "ld", 10, 10, name="TemporalJoin[2] -> out: Writer")
    sink = task("k", "lr", 10, 10, name="Sink: Writer")
    vertices = source("l", 90, 90), source("r", 10, 10), table, joined, sink
    assert [one.vertex.id for one in operators(JobSample(0, vertices))] == ["j", "d", "k"]


def test_a_subtask_without_split_watermarks_is_idle_where_it_is_left_out_and_reads_nothing() -> None:
    def at(level: int, quiet_ms: int) -> tuple[VertexSample, ...]:
        tasks = Subtask(0, output=level), Subtask(1, output=5, source_idle_ms=quiet_ms)
        return VertexSample(Vertex("s", "Source: in", 2, "RUNNING"), tasks), task("w", "s", level, level, windowed=True)

    assert [one.state for one in attribution(at(80, 0), at(90, 60_000)).channels] == ["active", "idle"]
    assert [one.state for one in attribution(at(80, 0), at(90, 0)).channels] == ["active", "catching_up"]


def test_a_subtask_whose_watermark_does_not_move_is_stuck_also_without_splits() -> None:
    """Flink 1.20: whether it gets records is not known, so it is not said to lag."""

    def cause(mark: int, apart: int) -> str | None:
        def at(time: int, slow: int) -> JobSample:
            tasks = Subtask(0, output=90), Subtask(1, output=slow)
            above = VertexSample(Vertex("s", "Source: in", 2, "RUNNING"), tasks)
            return JobSample(time, (above, task("w", "s", slow, slow, windowed=True)))

        old, new = at(0, 10), at(apart, mark)
        held = attributed(new, old).held_back_by
        return None if held is None else held.cause

    assert cause(10, 10_000) == "stuck"
    assert cause(15, 10_000) == "behind"
    assert cause(10, 1_000) == "behind"  # too close together


def test_windows_behind_another_operator_of_their_task_receive_what_that_one_sends() -> None:
    """Flink 1.20.5: an operator of the job's own that sends its watermark 30 s later, and windows without a shuffle."""

    def at(second: int) -> tuple[VertexSample, ...]:
        received, sent = second * 1_000, second * 1_000 - 30_000
        values = {
            "0.currentInputWatermark": received,
            "0.Later.currentInputWatermark": received,
            "0.Later.currentOutputWatermark": sent,
            "0.Window.currentInputWatermark": sent,
            "0.Window.currentOutputWatermark": sent,
            "0.Window.numLateRecordsDropped": 0,
        }
        vertex = Vertex("w", "Later -> Window", 1, "RUNNING", (Edge("s", forward=True),))
        window, _ = sample_of(vertex, wanted(vertex, values), {id: str(values[id]) for id in wanted(vertex, values)})
        return source("s", received), window

    for between in (40, 50):  # it moves, or has stopped
        found = watched(at(40), at(50), at(50 + between - 40), at(50 + between - 40))
        assert (found.operator, found.watermark_ms) == ("w", 20_000 + 1_000 * (between - 40))
        assert [(one.channel, one.watermark_ms) for one in found.channels] == [("s-0", found.watermark_ms)]
        assert found.delays == {"s-0": 30_000}
        assert found.held_back_by is not None
        assert (found.held_back_by.channel, found.held_back_by.cause) == ("s-0", "stuck")
    unknown = watched(at(50), at(50), at(50))
    assert (unknown.watermark_ms, unknown.held_back_by, unknown.held_in) == (20_000, None, "w")


def test_a_watermark_that_a_restart_takes_away_has_not_moved() -> None:
    """A split that is silent since the restart: the operator has none, as REST says."""
    facts = FlinkFacts(graph=Graph(ListedJob("1", "orders", "RUNNING", 0), 0), answered_ms=0)
    moved: list[int | None] = []
    seen: Snapshot | None = None
    for number, level in enumerate((40_000, 50_000, MIN, MIN, 60_000)):
        vertices = source("s", level, 70_000), task("w", "s", level, level, windowed=True)
        facts = replace(facts, samples=(JobSample(10_000 * number, vertices),))
        seen = snapshot(facts, 10_000 * number, before=seen)
        moved.append(seen.level.moved_ms)
    assert moved == [None, 10_000, 10_000, 10_000, 40_000]
