import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.async.RichAsyncFunction;
import org.apache.flink.streaming.api.functions.co.ProcessJoinFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.table.annotation.ArgumentHint;
import org.apache.flink.table.annotation.ArgumentTrait;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Jobs that drop late records, or hold rows, each in its own way. Their input is a file that the tests write, as for
 * `FilesJob`: the job `sorted` reads `sorted-0`. A name with `_` is that of several queries in one job.
 */
public class SqlJob {
    static final String WINDOWS = "TABLE(TUMBLE(TABLE o, DESCRIPTOR(ts), INTERVAL '1' MINUTE))";
    static final String FIRST_TWO = "SELECT k, f0 c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY f0) n FROM %s) WHERE n <= 2";
    static final Map<String, String> QUERIES = new HashMap<>(Map.of(
            "grouped", "SELECT k, COUNT(*) c FROM o GROUP BY k, TUMBLE(ts, INTERVAL '1' MINUTE)",
            "twophase", "SELECT k, COUNT(*) c FROM " + WINDOWS + " GROUP BY k, window_start, window_end",
            "ranked", String.format(FIRST_TWO, WINDOWS),
            "hopping", String.format(FIRST_TWO, "TABLE(HOP(TABLE o, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))"),
            "over", "SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW) c FROM o",
            "first", "SELECT k, f0 c FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts ASC) n FROM o) WHERE n = 1",
            "joined", "SELECT l.k, r.f0 c FROM (SELECT * FROM " + WINDOWS + ") l JOIN (SELECT * FROM " + WINDOWS + ") r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
            "interval", "SELECT l.k, r.f0 c FROM o l JOIN o r ON l.k = r.k AND l.ts BETWEEN r.ts - INTERVAL '10' SECOND AND r.ts",
            "sorted", "SELECT k, f0 c FROM o ORDER BY ts",
            "function", "SELECT k, `EXPR$0` c FROM Ordered(input => TABLE o PARTITION BY k ORDER BY ts, on_time => DESCRIPTOR(ts))"));

    static {
        QUERIES.put("temporal", "SELECT l.k, r.f0 c FROM o l JOIN newest FOR SYSTEM_TIME AS OF l.ts r ON l.k = r.k");
        QUERIES.put("matched", "SELECT k, c FROM o MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES B.f0 AS c ONE ROW PER MATCH PATTERN (A B) DEFINE B AS B.f0 > A.f0)");
    }

    public static class Ordered extends ProcessTableFunction<Long> {
        public void eval(@ArgumentHint({ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME}) Row input) {
            collect(input.<Long>getFieldAs("f0"));
        }
    }

    /** Answers at once for the first minute, and then never. */
    static class Lookup extends RichAsyncFunction<Long, Long> {
        @Override
        public void asyncInvoke(Long value, ResultFuture<Long> answer) {
            if (value < 1_700_000_100_000L) {
                answer.complete(List.of(value));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, failed) -> {
            failed.printStackTrace();
            System.exit(1);
        });
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        String port = options.get("port");
        Configuration conf = FilesJob.configuration(options);
        boolean isFirst = true;
        for (String name : options.get("names").split(",")) {
            StreamExecutionEnvironment env = isFirst
                    ? StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(conf)
                    : StreamExecutionEnvironment.createRemoteEnvironment("127.0.0.1", Integer.parseInt(port));
            isFirst = false;
            env.setParallelism(1);
            build(env, name, options.get("dir"));
            env.executeAsync(name);
        }
        Thread.sleep(Long.parseLong(options.getOrDefault("stay", "600000")));
    }

    static DataStream<Long> stream(StreamExecutionEnvironment env, String name, String directory) {
        FilesJob.FilesSource source = new FilesJob.FilesSource(directory, name, 1, false);
        return env.fromSource(source, WatermarkStrategy.<Long>forMonotonousTimestamps(), "Source " + name, Types.LONG);
    }

    static void build(StreamExecutionEnvironment env, String name, String directory) {
        DataStream<Long> all = stream(env, name, directory);
        TumblingEventTimeWindows minutes = TumblingEventTimeWindows.of(Duration.ofMinutes(1));
        switch (name) {
            case "onetask":
                DataStreamUtils.reinterpretAsKeyedStream(all, value -> value % 4, Types.LONG)
                        .window(minutes).reduce(Math::max).name("Per minute").sinkTo(new DiscardingSink<>());
                return;
            case "aside":
                OutputTag<Long> late = new OutputTag<>("late", Types.LONG);
                var windows = all.keyBy(value -> value % 4).window(minutes).sideOutputLateData(late).reduce(Math::max).name("Per minute");
                windows.sinkTo(new DiscardingSink<>());
                windows.getSideOutput(late).sinkTo(new DiscardingSink<>()).name("Late");
                return;
            case "paired":
                all.keyBy(value -> value % 4).intervalJoin(stream(env, name, directory).keyBy(value -> value % 4))
                        .between(Duration.ofSeconds(-10), Duration.ZERO).process(new ProcessJoinFunction<Long, Long, Long>() {
                            @Override
                            public void processElement(Long left, Long right, Context context, Collector<Long> out) {
                                out.collect(left);
                            }
                        }).name("Paired").sinkTo(new DiscardingSink<>());
                return;
            case "lookup":
                AsyncDataStream.orderedWait(all, new Lookup(), 1, TimeUnit.HOURS).name("Lookup")
                        .keyBy(value -> value % 4).window(minutes).reduce(Math::max).name("Per minute").sinkTo(new DiscardingSink<>());
                return;
            default:
        }
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.createTemporaryView("o", all, Schema.newBuilder().column("f0", DataTypes.BIGINT())
                .columnByExpression("ts", "TO_TIMESTAMP_LTZ(f0, 3)").columnByExpression("k", "MOD(f0, 4)")
                .watermark("ts", "SOURCE_WATERMARK()").build());
        tables.createTemporarySystemFunction("Ordered", Ordered.class);
        tables.executeSql("CREATE TEMPORARY VIEW newest AS SELECT f0, ts, k FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) n FROM o) WHERE n = 1");
        var inserts = tables.createStatementSet();
        if (List.of("nothing", "deduplicate").contains(name)) {
            tables.executeSql("CREATE TEMPORARY TABLE kept (c BIGINT, k BIGINT, PRIMARY KEY (c) NOT ENFORCED) WITH ('connector' = 'blackhole')");
            inserts.addInsertSql("INSERT INTO kept SELECT MAX(f0) AS c, k FROM o GROUP BY k ON CONFLICT DO " + name);
        } else {
            for (String query : name.split("_")) {
                tables.executeSql("CREATE TEMPORARY TABLE of_" + query + " (k BIGINT, c BIGINT) WITH ('connector' = 'blackhole')");
                inserts.addInsertSql("INSERT INTO of_" + query + " " + QUERIES.get(query));
            }
        }
        inserts.attachAsDataStream();
    }
}
