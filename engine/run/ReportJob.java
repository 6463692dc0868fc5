import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.AbstractDeserializationSchema;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceEvent;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;

/**
 * The Flink job of `wmtop demo --chain`: the flights of each carrier by the hour. Arguments: REST port, bootstrap, the topics
 * that it reads and writes, max out-of-orderness (ms). `hold` on its standard input pauses the source, `release`
 * resumes it; it ends when its standard input does.
 */
public class ReportJob {
    static volatile boolean held;

    /** Passes everything on to another source's reader, and emits nothing while the source is held. */
    record HeldReader<T, S extends SourceSplit>(SourceReader<T, S> reader) implements SourceReader<T, S> {
        @Override
        public InputStatus pollNext(ReaderOutput<T> output) throws Exception {
            return held ? InputStatus.NOTHING_AVAILABLE : reader.pollNext(output);
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return held
                    ? CompletableFuture.runAsync(() -> {}, CompletableFuture.delayedExecutor(100, TimeUnit.MILLISECONDS))
                    : reader.isAvailable();
        }

        @Override
        public void start() {
            reader.start();
        }

        @Override
        public List<S> snapshotState(long checkpoint) {
            return reader.snapshotState(checkpoint);
        }

        @Override
        public void addSplits(List<S> splits) {
            reader.addSplits(splits);
        }

        @Override
        public void notifyNoMoreSplits() {
            reader.notifyNoMoreSplits();
        }

        @Override
        public void handleSourceEvents(SourceEvent event) {
            reader.handleSourceEvents(event);
        }

        @Override
        public void notifyCheckpointComplete(long checkpoint) throws Exception {
            reader.notifyCheckpointComplete(checkpoint);
        }

        @Override
        public void pauseOrResumeSplits(Collection<String> pause, Collection<String> resume) {
            reader.pauseOrResumeSplits(pause, resume);
        }

        @Override
        public void close() throws Exception {
            reader.close();
        }
    }

    record HeldSource<T, S extends SourceSplit, E>(Source<T, S, E> source) implements Source<T, S, E> {
        @Override
        public Boundedness getBoundedness() {
            return source.getBoundedness();
        }

        @Override
        public SourceReader<T, S> createReader(SourceReaderContext context) throws Exception {
            return new HeldReader<>(source.createReader(context));
        }

        @Override
        public SplitEnumerator<S, E> createEnumerator(SplitEnumeratorContext<S> context) throws Exception {
            return source.createEnumerator(context);
        }

        @Override
        public SplitEnumerator<S, E> restoreEnumerator(SplitEnumeratorContext<S> context, E state) throws Exception {
            return source.restoreEnumerator(context, state);
        }

        @Override
        public SimpleVersionedSerializer<S> getSplitSerializer() {
            return source.getSplitSerializer();
        }

        @Override
        public SimpleVersionedSerializer<E> getEnumeratorCheckpointSerializer() {
            return source.getEnumeratorCheckpointSerializer();
        }
    }

    /** The delays of a carrier: its code, the event time (ms), the number of flights. */
    static class Delays extends AbstractDeserializationSchema<Tuple3<String, Long, Long>> {
        private static final Pattern FIELDS =
                Pattern.compile("\"time\":(\\d+),\"carrier\":\"(\\w+)\",\"flights\":(\\d+)");

        Delays() {
            super(Types.TUPLE(Types.STRING, Types.LONG, Types.LONG));
        }

        @Override
        public Tuple3<String, Long, Long> deserialize(byte[] value) {
            Matcher found = FIELDS.matcher(new String(value, StandardCharsets.UTF_8));
            return found.find() ? Tuple3.of(found.group(2), Long.valueOf(found.group(1)), Long.valueOf(found.group(3))) : null;
        }
    }

    static class Report extends ProcessWindowFunction<Tuple3<String, Long, Long>, String, String, TimeWindow> {
        @Override
        public void process(
                String carrier, Context context, Iterable<Tuple3<String, Long, Long>> delays, Collector<String> out) {
            long flights = 0;
            for (Tuple3<String, Long, Long> delay : delays) {
                flights += delay.f2;
            }
            long time = context.window().maxTimestamp();
            out.collect("{\"time\":" + time + ",\"carrier\":\"" + carrier + "\",\"flights\":" + flights + "}");
        }
    }

    static void obey() {
        try (BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                held = line.equals("hold");
            }
        } catch (IOException gone) {
            // the same as the end of it
        }
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] arguments) throws Exception {
        Thread commands = new Thread(ReportJob::obey);
        commands.setDaemon(true);
        commands.start();
        String bootstrap = arguments[1];
        Configuration conf = new Configuration();
        conf.setString("rest.address", "127.0.0.1");
        conf.setString("rest.bind-address", "127.0.0.1");
        conf.setString("rest.port", arguments[0]);
        conf.setString("rest.bind-port", arguments[0]);
        conf.setString("metrics.fetcher.update-interval", "500");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(conf);
        env.setParallelism(1);
        WatermarkStrategy<Tuple3<String, Long, Long>> strategy = WatermarkStrategy
                .<Tuple3<String, Long, Long>>forBoundedOutOfOrderness(Duration.ofMillis(Long.parseLong(arguments[4])))
                .withTimestampAssigner((delays, before) -> delays.f1);
        var topic = KafkaSource.<Tuple3<String, Long, Long>>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(arguments[2])
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new Delays())
                .build();
        var sink = KafkaSink.<String>builder()
                .setBootstrapServers(bootstrap)
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic(arguments[3])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
        env.fromSource(new HeldSource<>(topic), strategy, "delays", Types.TUPLE(Types.STRING, Types.LONG, Types.LONG))
                .keyBy(delays -> delays.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofHours(1)))
                .process(new Report())
                .name("hourly report")
                .sinkTo(sink)
                .name("reports");
        env.execute("hourly-report");
    }
}
