import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * The job of `wmtop demo --flink`: flights by carrier, counted by the hour of their scheduled departure. Arguments: REST
 * port, a directory with a file for each carrier (lines of arrival and event time in epoch ms, by arrival), the arrival
 * time to start at (ms), the speed, max out-of-orderness and idle timeout (ms). It ends when its standard input does.
 */
public class FlightsJob {
    record Carrier(String id, String path) implements SourceSplit {
        @Override
        public String splitId() {
            return id;
        }
    }

    static class Flights implements Source<Tuple2<String, Long>, Carrier, Boolean> {
        private final String directory;
        private final long startMs;
        private final long beganMs = System.currentTimeMillis();
        private final double speed;

        Flights(String directory, long startMs, double speed) {
            this.directory = directory;
            this.startMs = startMs;
            this.speed = speed;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SplitEnumerator<Carrier, Boolean> createEnumerator(SplitEnumeratorContext<Carrier> context) {
            return new Assigner(context, directory);
        }

        @Override
        public SplitEnumerator<Carrier, Boolean> restoreEnumerator(SplitEnumeratorContext<Carrier> context, Boolean done) {
            return new Assigner(context, directory);
        }

        @Override
        public SimpleVersionedSerializer<Carrier> getSplitSerializer() {
            return new Text<>() {
                @Override
                String write(Carrier carrier) {
                    return carrier.id + "\n" + carrier.path;
                }

                @Override
                Carrier read(String text) {
                    String[] parts = text.split("\n");
                    return new Carrier(parts[0], parts[1]);
                }
            };
        }

        @Override
        public SimpleVersionedSerializer<Boolean> getEnumeratorCheckpointSerializer() {
            return new Text<>() {
                @Override
                String write(Boolean value) {
                    return value.toString();
                }

                @Override
                Boolean read(String text) {
                    return Boolean.valueOf(text);
                }
            };
        }

        @Override
        public SourceReader<Tuple2<String, Long>, Carrier> createReader(SourceReaderContext context) {
            return new Reader(startMs, beganMs, speed);
        }
    }

    abstract static class Text<T> implements SimpleVersionedSerializer<T> {
        abstract String write(T value);

        abstract T read(String text);

        @Override
        public int getVersion() {
            return 1;
        }

        @Override
        public byte[] serialize(T value) {
            return write(value).getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public T deserialize(int version, byte[] bytes) {
            return read(new String(bytes, StandardCharsets.UTF_8));
        }
    }

    /** Gives each subtask its share of the carriers once all subtasks are there. */
    static class Assigner implements SplitEnumerator<Carrier, Boolean> {
        private final SplitEnumeratorContext<Carrier> context;
        private final String directory;

        Assigner(SplitEnumeratorContext<Carrier> context, String directory) {
            this.context = context;
            this.directory = directory;
        }

        @Override
        public void start() {}

        @Override
        public void handleSplitRequest(int subtask, String host) {}

        @Override
        public void addSplitsBack(List<Carrier> carriers, int subtask) {}

        @Override
        public void addReader(int subtask) {
            if (context.registeredReaders().size() < context.currentParallelism()) {
                return;
            }
            try (var files = Files.list(Path.of(directory))) {
                List<Path> sorted = files.sorted().toList();
                for (int number = 0; number < sorted.size(); number++) {
                    Path file = sorted.get(number);
                    Carrier carrier = new Carrier(file.getFileName().toString(), file.toString());
                    context.assignSplit(carrier, number % context.currentParallelism());
                }
            } catch (IOException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public Boolean snapshotState(long checkpoint) {
            return true;
        }

        @Override
        public void close() {}
    }

    /** Emits each record when the replay clock has reached its arrival. */
    static class Reader implements SourceReader<Tuple2<String, Long>, Carrier> {
        private final Map<String, Carrier> splits = new LinkedHashMap<>();
        private final Map<String, BufferedReader> open = new HashMap<>();
        private final Map<String, long[]> next = new HashMap<>();
        private final long startMs;
        private final long beganMs;
        private final double speed;

        Reader(long startMs, long beganMs, double speed) {
            this.startMs = startMs;
            this.beganMs = beganMs;
            this.speed = speed;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Tuple2<String, Long>> output) throws Exception {
            long clockMs = startMs + (long) ((System.currentTimeMillis() - beganMs) * speed);
            boolean more = false;
            for (Carrier carrier : splits.values()) {
                long[] row = next.get(carrier.id());
                if (row == null) {
                    row = read(carrier);
                }
                if (row != null && row[0] <= clockMs) {
                    output.createOutputForSplit(carrier.id()).collect(Tuple2.of(carrier.id(), 1L), row[1]);
                    next.remove(carrier.id());
                    more = true;
                } else if (row != null) {
                    output.createOutputForSplit(carrier.id());
                    next.put(carrier.id(), row);
                }
            }
            return more ? InputStatus.MORE_AVAILABLE : InputStatus.NOTHING_AVAILABLE;
        }

        private long[] read(Carrier carrier) throws IOException {
            BufferedReader file = open.get(carrier.id());
            if (file == null) {
                file = Files.newBufferedReader(Path.of(carrier.path()));
                open.put(carrier.id(), file);
            }
            String line = file.readLine();
            if (line == null) {
                return null;
            }
            int comma = line.indexOf(',');
            return new long[] {Long.parseLong(line.substring(0, comma)), Long.parseLong(line.substring(comma + 1))};
        }

        @Override
        public List<Carrier> snapshotState(long checkpoint) {
            return new ArrayList<>(splits.values());
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return CompletableFuture.supplyAsync(() -> null, CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS));
        }

        @Override
        public void addSplits(List<Carrier> added) {
            for (Carrier carrier : added) {
                splits.put(carrier.id(), carrier);
            }
        }

        @Override
        public void pauseOrResumeSplits(Collection<String> pause, Collection<String> resume) {}

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() throws Exception {
            for (BufferedReader file : open.values()) {
                file.close();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread parent = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {}
            } catch (IOException gone) {
                // the same as the end of it
            }
            Runtime.getRuntime().halt(0);
        });
        parent.setDaemon(true);
        parent.start();
        Configuration conf = new Configuration();
        conf.setString("rest.address", "127.0.0.1");
        conf.setString("rest.bind-address", "127.0.0.1");
        conf.setString("rest.port", arguments[0]);
        conf.setString("rest.bind-port", arguments[0]);
        conf.setString("metrics.fetcher.update-interval", "2000");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(conf);
        env.setParallelism(2);
        WatermarkStrategy<Tuple2<String, Long>> strategy = WatermarkStrategy
                .<Tuple2<String, Long>>forBoundedOutOfOrderness(Duration.ofMillis(Long.parseLong(arguments[4])))
                .withIdleness(Duration.ofMillis(Long.parseLong(arguments[5])));
        Flights flights = new Flights(arguments[1], Long.parseLong(arguments[2]), Double.parseDouble(arguments[3]));
        DataStream<Tuple2<String, Long>> source =
                env.fromSource(flights, strategy, "flights", Types.TUPLE(Types.STRING, Types.LONG));
        source.keyBy(flight -> flight.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofHours(1)))
                .sum(1)
                .name("departures per hour")
                .sinkTo(new DiscardingSink<>())
                .name("discard");
        env.execute("flights");
    }
}
