"""Sentences of README and docs about Flink, Spark or Kafka Streams, each with the test that shows it.

Most of these tests run the real engine. The sentences are named by a piece of them, the tests by the beginning of
their names: a sentence that changes has to be looked at again. Not all sentences are here yet.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLINK, SPARK, GALLERY, STREAMS = "targets/flink/test_", "targets/spark/test_", "gallery/test_", "targets/streams/test_"
KAFKA = "kafka/test_"
SHOWN_BY = {
    "README.md": {
        "the *fastest* partition drives it": f"{SPARK}late_rule.py::a_tap_counts_what_spark",
        "rows dropped by the watermark of the batch before": f"{SPARK}late_rule.py::four_rows_in_batches_of_one",
        "counted after partial": f"{GALLERY}gallery.py::dropped_rows_are_what_spark",
        "a counter of dropped ones on each window operator": f"{FLINK}sql_jobs.py::three_late_records_are",
        "the gap between batch time and the global watermark": f"{SPARK}over_http.py::a_driver_shows_what_its",
        "of each operator and subtask": f"{FLINK}random_jobs.py::random_jobs_are_seen_as",
        "`--strategy spark` shows what": f"{SPARK}late_rule.py::the_strategy_drops_what",
        "no group is joined": f"{STREAMS}group.py::a_plain_group_shows_all_its",
        "the JobManager's REST API; nothing in the job": f"{FLINK}situations.py::one_look_as_a_process_is",
        "splits inside one are metrics": f"{FLINK}live.py::a_lagging_split_holds",
        "flights through Kafka, Spark, Kafka and Flink": f"{KAFKA}demo_chain.py::a_planted_loss_is",
        "wmtop follows Flink's rules": "watermarks/test_vectors.py::valve",
    },
    "docs/flink.md": {
        "the only job that runs; several: they are listed": f"{FLINK}situations.py::several_jobs_are_listed",
        "by name or id": f"{FLINK}rest.py::which_job_is_meant",
        "behind a proxy's path prefix": f"{FLINK}proxied.py::credentials_by_variable_and",
        "the flights through a real Flink": f"{FLINK}demo.py::the_demo_runs_the_flights",
        "The JobManager's REST API is all it needs": f"{FLINK}situations.py::one_look_as_a_process_is",
        "only GET requests": f"{FLINK}proxied.py::credentials_by_variable_and",
        "the splits inside each source subtask": f"{FLINK}live.py::a_lagging_split_holds",
        "which ones are idle or catching up": f"{FLINK}returning.py::a_split_that_returns_below_the_operator",
        "dropped late records": f"{FLINK}live.py::a_lagging_split_holds",
        "`--operator NAME`": f"{FLINK}late_records.py::an_operator_that_is_gone_is",
        "shows the inputs of another operator": f"{FLINK}live.py::a_split_that_never_sent",
        "`MATCH_RECOGNIZE`": f"{FLINK}sql_jobs.py::an_operator_that_holds_rows",
        "those of the operator that counts most": f"{FLINK}sql_jobs.py::three_late_records_are",
        "the job has restarted": f"{FLINK}live.py::a_failure_restarts_the_job",
        "SQL's `HOP`": f"{FLINK}sql_jobs.py::three_late_records_are",
        "`metrics.fetcher.update-interval`": f"{FLINK}situations.py::one_look_as_a_process_is",
        "Lateness, idle timeout and open windows are not in the API": f"{FLINK}situations.py::one_look_as_a_process",
        "Operators (`o`) is the job's graph": "tui/words/test_flink_words.py::the_graph_has_a_row_a_task",
        "as Java or, for a job from SQL, as SQL": "verdict/test_job_line.py::of_a_flink_job_from_sql",
        "else that the watermark of the split does not move": f"{FLINK}situations.py::a_stuck_job_is_stalled",
        "`alignment-pauses` names": f"{FLINK}situations.py::a_split_that_alignment",
        "a verdict takes a minute": f"{FLINK}situations.py::check_of_a_stuck_job",
        "Redirects are never\n  followed": f"{FLINK}proxied.py::a_redirect_carries_no",
        "windows, also those chained to their source": f"{FLINK}sql_jobs.py::a_job_of_one_task_has_a",
        "in SQL also `ORDER BY`": f"{FLINK}sql_jobs.py::an_operator_that_holds_rows",
        "interval joins by processing time: a job with no others": f"{FLINK}rest.py::windows_by_the_clock",
        "its window shows Flink's count, 0": f"{FLINK}late_records.py::windows_with_a_second",
        "`DO DEDUPLICATE` does not wait": f"{FLINK}sql_jobs.py::an_upsert_sink_waits_if_it",
        "two-phase aggregate": f"{FLINK}late_records.py::a_two_phase_sql_aggregate",
        "Flink counts none in": f"{FLINK}sql_jobs.py::late_records_that_nothing",
        "`--bootstrap broker:9092` joins its partitions": f"{FLINK}unread.py::a_split_with_unread_records",
        "paused by\n  watermark alignment": f"{FLINK}situations.py::a_split_that_alignment",
        "a source without a watermark strategy": f"{FLINK}live.py::a_job_without_watermarks",
        "a source subtask without a split": f"{FLINK}live.py::a_source_subtask_without_a",
        "keeps its watermark back (async I/O)": f"{FLINK}sql_jobs.py::a_lookup_without_an_answer",
        "records in flight": f"{FLINK}live.py::a_busy_operator_is_not_a",
        "an interval join of Flink SQL": f"{FLINK}sql_jobs.py::an_interval_join_sends_its",
        "restarts with their cause": f"{FLINK}live.py::a_failure_restarts_the_job",
        "TLS and login": f"{FLINK}proxied.py::tls_needs_the_authority_and",
    },
    "docs/attribution.md": {
        "**F1** An operator's watermark": f"{FLINK}returning.py::a_split_that_returns_below_the_operator",
        "**F2** A subtask sends": f"{FLINK}returning.py::a_split_that_returns_below_its_own",
        "only more idle time than fits before the last record": f"{FLINK}returning.py::splits_that_are_all_idle",
        "**F6** `accumulatedPausedTimeMs`": f"{FLINK}situations.py::a_split_that_alignment",
        "A subtask without a split never has": f"{FLINK}live.py::a_source_subtask_without_a",
        "An operator that waits (async I/O": f"{FLINK}sql_jobs.py::a_lookup_without_an_answer",
        "**F9** The end of the stream": f"{FLINK}situations.py::a_job_whose_splits_end",
        "**F12** Records that wait": f"{FLINK}live.py::a_busy_operator_is_not_a",
        "a SQL sink that compacts by watermark": f"{FLINK}sql_jobs.py::an_upsert_sink_waits_if_it",
        "less a constant, once": f"{FLINK}upstream.py::a_task_that_always_sends",
        "one that has counted any has none": f"{FLINK}late_records.py::a_late_record_is",
        "the bound of an interval join of SQL": f"{FLINK}sql_jobs.py::an_interval_join_sends_its",
        "`totals.late` is the greatest number of one counter": f"{FLINK}sql_jobs.py::three_late_records_are",
    },
    "docs/kafka.md": {
        "One channel per partition": f"{KAFKA}reading.py::both_readers_show_the",
        "A partition with\nunread records is never taken for idle": f"{KAFKA}idleness.py::a_partition_is_idle_only",
        "ISO 8601 or a number; the\n  unit of each number": f"{KAFKA}reading.py::every_way_to_write",
        "A record without a usable time counts as\n  malformed": f"{KAFKA}reading.py::a_malformed_record_is",
        "**Where to begin**": f"{KAFKA}reading.py::where_to_begin",
        "resumes where\n  it was, also after `kill -9`": f"{KAFKA}command.py::killed_and_started_again",
        "it ends at the offsets found at the start": f"{KAFKA}changes.py::a_bounded_partition_finishes",
        "`--max-drift 5m` pauses partitions that run ahead": f"{KAFKA}idleness.py::balanced_reading_holds_back",
        "Added partitions": f"{KAFKA}changes.py::a_partition_is_added",
        "deleted and recreated topics": f"{KAFKA}changes.py::a_topic_is_deleted_and",
        "a broker that restarts": f"{KAFKA}changes.py::the_broker_restarts_while",
        "records that retention deleted before they were read": f"{KAFKA}changes.py::retention_deletes_what",
        "SASL `PLAIN`, `SCRAM-SHA-256` and\n`SCRAM-SHA-512`": f"{KAFKA}security.py::each_mechanism_lists",
        "reach Spark through the environment only": f"{KAFKA}security.py::a_run_leaves_no_secret",
        "If the broker refuses, one line says why": f"{KAFKA}security.py::a_refusal_says_which",
        "nothing is committed and no group is joined": f"{KAFKA}attach.py::a_look_joins_no_group",
        "gzip, snappy, lz4 and zstd are read without": f"{KAFKA}compression.py::batches_of_kafka_s_producer",
        "Without a group you see each partition's greatest": f"{KAFKA}attach.py::a_topic_s_partitions_are",
        "with `--group` how far that group": f"{KAFKA}attach.py::a_group_is_where_it",
    },
    "docs/spark.md": {
        "neither waits for a reader or fails\nthe job": f"{SPARK}publish.py::the_job_outlived_its_reader",
        "takes an application's id or name": f"{SPARK}over_http.py::an_application_is_found",
        "Between two fetches the screen's clock is frozen": f"{SPARK}http_server_that_lies.py::nothing_ages_in_a_log",
        "that starts, and a driver without a batch": f"{SPARK}http_server_that_lies.py::a_server_that_is_not",
        "The batch of a query that failed is": f"{SPARK}over_http.py::queries_that_failed_and",
        "- TLS and login": f"{SPARK}over_http.py::tls_a_login_and_a",
        "A column that is only named `timestamp`": f"{KAFKA}attach.py::record_timestamps_are_no_event",
        "Partitions that the query does not read (`assign`)": f"{KAFKA}attach.py::a_partition_that_the_query_does",
        "Files of a checkpoint never change, so each is fetched once": f"{SPARK}store.py::a_look_at_an_idle_query",
        "A store that does not\nanswer for 5 s": f"{SPARK}store.py::a_store_that_fails_makes",
        "`publish` cannot see the server's queries": f"{SPARK}publish.py::over_spark_connect_one",
        "A query that reports to be idle (event log, `publish`)": f"{SPARK}event_log.py::running_idle_ended_failed",
        "a finished one opens as a recording": f"{SPARK}attach_query.py::a_finished_log_is_a",
        "After the restart a longer delay freezes the watermark": f"{GALLERY}gallery.py::what_is_wrong_is_said",
        "Without Python in the job, paste an `observe`": f"{SPARK}publish.py::a_pasted_observe_says_the",
        "the first four columns report the input's own event time": f"{SPARK}publish.py::an_input_without_channels",
        "Exact up to 4,096 channels": f"{SPARK}publish.py::of_too_many_channels_a_fair",
        "A `foreachBatch` function": f"{GALLERY}gallery.py::dropped_rows_are_what_spark",
        "what the event log reports. The History Server": f"{SPARK}over_http.py::a_history_server_has_what",
        "needs no setting in the job. Known are": f"{SPARK}over_http.py::a_driver_shows_what_its",
        "Of a query whose batches the driver has forgotten": f"{SPARK}over_http.py::a_driver_that_forgets",
        "`spark.sql.streaming.metricsEnabled=true`": f"{SPARK}over_http.py::without_a_statistics_page",
        "A query that is idle and one that is stuck": f"{SPARK}over_http.py::a_query_with_a_long_trigger",
        "The plan (event log, `publish`) says it": f"{SPARK}record_time.py::the_place_of_event_time",
        "Spark reports the greatest event time of *one* watermark": f"{GALLERY}gallery.py::the_event_log_has_what_only",
        "By event log the batch in flight is seen from its start": f"{GALLERY}realtime.py::the_batch_in_flight_is_the",
        "batches follow each other without data, too": f"{GALLERY}realtime.py::batches_without_data_are_no",
        "counts a late row on both sides: `≥` half": f"{SPARK}late_rule.py::a_join_counts_each",
        "Dropped rows are counted one by one": f"{GALLERY}realtime.py::dropped_rows_are_counted",
        "what the query's own `count` says": f"{SPARK}open_windows.py::without_a_count_records_are",
        "The variables of transformWithState": f"{SPARK}open_windows.py::what_cannot_be_read_is",
    },
    "docs/semantics.md": {
        "compares late rows with the watermark of the batch *before* it": f"{SPARK}late_rule.py::four_rows_in_batches",
        "(in complete mode none)": f"{GALLERY}gallery.py::dropped_rows_are_what_spark",
        "itself counts a late row on both sides": f"{SPARK}late_rule.py::a_join_counts_each",
        "`dropDuplicates` when `event_time ≤ A`": f"{SPARK}late_rule.py::a_tap_counts_what_spark",
        "nor does one\n  without state": f"{GALLERY}gallery.py::a_batch_without_data",
        "a row is late by its own `[t, t + gap)`": f"{SPARK}late_rule.py::the_strategy_drops_what",
        "A node without data pins the minimum at 1970": f"{GALLERY}gallery.py::what_is_wrong_is_said",
    },
    "docs/findings.md": {
        "Flink counts a rescale as a restart": f"{FLINK}one_truth.py::a_rescale_is_a_restart",
        "Their paused time grows in Flink's metrics": f"{FLINK}situations.py::a_split_that_alignment",
        "`numLateRecordsDropped` of the job's operators": f"{FLINK}sql_jobs.py::three_late_records_are",
        "the watermark is still Flink's lowest value": f"{FLINK}live.py::a_job_without_watermarks",
        "The watermark that it receives is past the one that it sends": f"{FLINK}sql_jobs.py::a_lookup_without_an",
        "one keeps the policy of its first start": f"{GALLERY}gallery.py::the_event_log_has_what_only",
        "of dropDuplicates and joins": f"{SPARK}late_rule.py::a_join_counts_each",
        "and in real-time mode, it counts each": f"{GALLERY}realtime.py::dropped_rows_are_counted",
    },
    "docs/operating.md": {
        "a Flink source that reads nothing although records are unread": f"{KAFKA}demo_chain.py::a_planted_loss"
    },
    "docs/run.md": {"recorded answers of Flink 2.3.0's own classes": "watermarks/test_vectors.py::valve"},
    "docs/kafka-streams.md": {
        "Kafka Streams writes each\npartition's *stream time*": f"{STREAMS}applications.py::emitted_and_waiting",
        "A window of a task closes when that clock": f"{STREAMS}applications.py::windows_emitted_on_close",
        "`y` copies a `kafka-console-producer` line": f"{STREAMS}applications.py::the_offered_command_frees",
        "Of hopping": f"{STREAMS}applications.py::hopping_windows_wait_as",
        "A partition that never had a record": f"{STREAMS}applications.py::a_partition_that_never_had",
        "Tasks are known while members of the group exist": f"{STREAMS}applications.py::unread_records_of_a_stopped",
        "Before the first commit there is none": f"{STREAMS}applications.py::an_application_is",
    },
}
NOT_TRIED = {
    "docs/spark.md": (
        "without YARN and Kubernetes",
        "This was not tried on Databricks",
        "No test runs a Connect server",
    )
}
"""Sentences that no engine here can show: the page itself says so."""


@pytest.mark.parametrize("page", SHOWN_BY)
def test_each_sentence_is_there_and_so_is_the_job_that_shows_it(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [part for part in (*SHOWN_BY[page], *NOT_TRIED.get(page, ())) if part not in text] == []
    for test in SHOWN_BY[page].values():
        file, _, name = test.partition("::")
        assert f"def test_{name}" in (ROOT / "tests" / file).read_text(), test


def test_no_more_rows_of_the_gallery_are_marked_as_without_a_job() -> None:
    """`*`: seen with written files and reports only."""
    gallery = (ROOT / "docs/spark.md").read_text().split("## Job by job")[1]
    rows = re.findall(r"^\| ([^|]*\*[^|]*) \|", gallery, re.MULTILINE)
    assert [row.split(" (")[0] for row in rows] == [
        "long trigger pause after the first batch",
        "continuous processing *",
    ]
