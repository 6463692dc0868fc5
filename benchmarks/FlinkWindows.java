import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.functions.windowing.ProcessWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Counts by channel and window of 10 s. Arguments: directory, subtasks. A subtask reads `part-N`: 12 bytes a record
 * (channel, event time), in order of arrival; each channel has a watermark of its own, as a Kafka partition has.
 * Prints the number of late records, and a line `start count` for each window.
 */
public class FlinkWindows {
    static final TreeMap<Long, Long> FIRED = new TreeMap<>();
    static final AtomicLong LATE = new AtomicLong();
    static final int A_POLL = 100;

    record Part(int number, String path) implements SourceSplit {
        @Override
        public String splitId() {
            return Integer.toString(number);
        }
    }

    static class Parts implements Source<Tuple2<Integer, Long>, Part, Integer> {
        private final String directory;

        Parts(String directory) {
            this.directory = directory;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SplitEnumerator<Part, Integer> createEnumerator(SplitEnumeratorContext<Part> context) {
            return new SplitEnumerator<>() {
                @Override
                public void start() {}

                @Override
                public void handleSplitRequest(int subtask, String host) {}

                @Override
                public void addSplitsBack(List<Part> back, int subtask) {}

                @Override
                public void addReader(int subtask) {
                    if (context.registeredReaders().size() == context.currentParallelism()) {
                        for (int to : context.registeredReaders().keySet()) { // all at once
                            context.assignSplit(new Part(to, directory + "/part-" + to), to);
                        }
                    }
                }

                @Override
                public Integer snapshotState(long checkpoint) {
                    return 0;
                }

                @Override
                public void close() {}
            };
        }

        @Override
        public SplitEnumerator<Part, Integer> restoreEnumerator(SplitEnumeratorContext<Part> context, Integer state) {
            return createEnumerator(context);
        }

        @Override
        public SimpleVersionedSerializer<Part> getSplitSerializer() {
            return new Text<>() {
                @Override
                String write(Part part) {
                    return part.number + "\n" + part.path;
                }

                @Override
                Part read(String text) {
                    String[] lines = text.split("\n");
                    return new Part(Integer.parseInt(lines[0]), lines[1]);
                }
            };
        }

        @Override
        public SimpleVersionedSerializer<Integer> getEnumeratorCheckpointSerializer() {
            return new Text<>() {
                @Override
                String write(Integer value) {
                    return value.toString();
                }

                @Override
                Integer read(String text) {
                    return Integer.valueOf(text);
                }
            };
        }

        @Override
        public SourceReader<Tuple2<Integer, Long>, Part> createReader(SourceReaderContext context) {
            return new Reader();
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

    static class Reader implements SourceReader<Tuple2<Integer, Long>, Part> {
        private final CompletableFuture<Void> assigned = new CompletableFuture<>();
        private final ArrayList<SourceOutput<Tuple2<Integer, Long>>> outputs = new ArrayList<>();
        private MappedByteBuffer records;

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Tuple2<Integer, Long>> output) {
            if (records == null) {
                return InputStatus.NOTHING_AVAILABLE;
            }
            for (int left = A_POLL; left > 0 && records.hasRemaining(); left--) {
                int channel = records.getInt();
                long time = records.getLong();
                while (outputs.size() <= channel) {
                    outputs.add(null);
                }
                SourceOutput<Tuple2<Integer, Long>> out = outputs.get(channel);
                if (out == null) {
                    out = output.createOutputForSplit(Integer.toString(channel));
                    outputs.set(channel, out);
                }
                out.collect(Tuple2.of(channel, time), time);
            }
            return records.hasRemaining() ? InputStatus.MORE_AVAILABLE : InputStatus.END_OF_INPUT;
        }

        @Override
        public List<Part> snapshotState(long checkpoint) {
            return List.of();
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            return assigned;
        }

        @Override
        public void addSplits(List<Part> parts) {
            try (RandomAccessFile file = new RandomAccessFile(parts.get(0).path(), "r")) {
                records = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0, file.length());
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
            assigned.complete(null);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() {}
    }

    static class Count implements AggregateFunction<Tuple2<Integer, Long>, Long, Long> {
        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<Integer, Long> value, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long one, Long other) {
            return one + other;
        }
    }

    static class Fire extends ProcessWindowFunction<Long, Long, Integer, TimeWindow> {
        @Override
        public void process(Integer channel, Context context, Iterable<Long> counts, Collector<Long> out) {
            long count = counts.iterator().next();
            synchronized (FIRED) {
                FIRED.merge(context.window().getStart(), count, Long::sum);
            }
            out.collect(count);
        }
    }

    /** A job's environment in this JVM. */
    static StreamExecutionEnvironment environment(int subtasks) {
        Configuration conf = new Configuration();
        conf.setString("rest.bind-port", "0");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(subtasks, conf);
        env.getConfig().enableObjectReuse();
        return env;
    }

    /** Runs the job on events of `source` (channel, event time), and prints what it found. */
    static void run(StreamExecutionEnvironment env, Source<Tuple2<Integer, Long>, ?, ?> source) throws Exception {
        OutputTag<Tuple2<Integer, Long>> late = new OutputTag<>("late", Types.TUPLE(Types.INT, Types.LONG));
        TypeInformation<Tuple2<Integer, Long>> type = Types.TUPLE(Types.INT, Types.LONG);
        SingleOutputStreamOperator<Long> counts = env.fromSource(
                        source,
                        WatermarkStrategy.<Tuple2<Integer, Long>>forBoundedOutOfOrderness(Duration.ofSeconds(5)),
                        "events", type)
                .keyBy(event -> event.f0, Types.INT)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(10)))
                .sideOutputLateData(late)
                .aggregate(new Count(), new Fire(), Types.LONG, Types.LONG, Types.LONG);
        counts.getSideOutput(late).map(event -> LATE.incrementAndGet()).returns(Types.LONG).sinkTo(new DiscardingSink<>());
        counts.sinkTo(new DiscardingSink<>());
        long began = System.nanoTime();
        env.execute();
        System.out.println("seconds " + (System.nanoTime() - began) / 1e9);
        System.out.println("late " + LATE.get());
        FIRED.forEach((start, count) -> System.out.println(start + " " + count));
        System.exit(0);
    }

    public static void main(String[] arguments) throws Exception {
        run(environment(Integer.parseInt(arguments[1])), new Parts(arguments[0]));
    }
}
