import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.connector.source.Boundedness;
import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.Source;
import org.apache.flink.api.connector.source.SourceOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SourceSplit;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.core.io.SimpleVersionedSerializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * A Flink job whose input the tests write: each split is a file, each line an event time (epoch ms). `FAIL` throws,
 * `END` ends the split. Options: key=value, see main; key-JOB=value is for the job of that name alone (`names=a,b`: the
 * cluster lives as long as the first one). With ends=1 a subtask has ended with its last split.
 */
public class FilesJob {
    record FileSplit(String id, String path, long offset) implements SourceSplit {
        @Override
        public String splitId() {
            return id;
        }
    }

    static class FilesSource implements Source<Long, FileSplit, Integer> {
        private final String directory;
        private final String name;
        private final int splits;
        private final boolean ends;

        FilesSource(String directory, String name, int splits, boolean ends) {
            this.ends = ends;
            this.directory = directory;
            this.name = name;
            this.splits = splits;
        }

        @Override
        public Boundedness getBoundedness() {
            return Boundedness.CONTINUOUS_UNBOUNDED;
        }

        @Override
        public SplitEnumerator<FileSplit, Integer> createEnumerator(SplitEnumeratorContext<FileSplit> context) {
            return new Assigner(context, 0);
        }

        @Override
        public SplitEnumerator<FileSplit, Integer> restoreEnumerator(SplitEnumeratorContext<FileSplit> context, Integer s) {
            return new Assigner(context, s);
        }

        @Override
        public SimpleVersionedSerializer<FileSplit> getSplitSerializer() {
            return new Text<>() {
                @Override
                String write(FileSplit split) {
                    return split.id + "\n" + split.path + "\n" + split.offset;
                }

                @Override
                FileSplit read(String text) {
                    String[] parts = text.split("\n");
                    return new FileSplit(parts[0], parts[1], Long.parseLong(parts[2]));
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
        public SourceReader<Long, FileSplit> createReader(SourceReaderContext context) {
            return new Reader(ends);
        }

        class Assigner implements SplitEnumerator<FileSplit, Integer> {
            private final SplitEnumeratorContext<FileSplit> context;
            private final Map<Integer, List<FileSplit>> returned = new HashMap<>();
            private int assigned;

            Assigner(SplitEnumeratorContext<FileSplit> context, int assigned) {
                this.context = context;
                this.assigned = assigned;
            }

            @Override
            public void start() {}

            @Override
            public void handleSplitRequest(int subtask, String host) {}

            @Override
            public void addSplitsBack(List<FileSplit> back, int subtask) {
                // The subtask that failed has no reader yet.
                returned.computeIfAbsent(subtask, key -> new ArrayList<>()).addAll(back);
                assignReturned();
            }

            private void assignReturned() {
                for (int subtask : context.registeredReaders().keySet()) {
                    List<FileSplit> splits = returned.remove(subtask);
                    for (FileSplit split : splits == null ? List.<FileSplit>of() : splits) {
                        context.assignSplit(split, subtask);
                    }
                }
            }

            @Override
            public void addReader(int subtask) {
                assignReturned();
                if (context.registeredReaders().size() < context.currentParallelism()) {
                    return;
                }
                for (; assigned < splits; assigned++) {
                    String id = name + "-" + assigned;
                    int to = assigned % context.currentParallelism();
                    context.assignSplit(new FileSplit(id, Path.of(directory, id).toString(), 0), to);
                }
            }

            @Override
            public Integer snapshotState(long checkpoint) {
                return assigned;
            }

            @Override
            public void close() {}
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

    static class Reader implements SourceReader<Long, FileSplit> {
        private final Map<String, FileSplit> splits = new LinkedHashMap<>();
        private final Map<String, RandomAccessFile> open = new HashMap<>();
        private final Set<String> paused = new HashSet<>();
        private final boolean ends;
        private CompletableFuture<Void> available = CompletableFuture.completedFuture(null);

        Reader(boolean ends) {
            this.ends = ends;
        }

        @Override
        public void start() {}

        @Override
        public InputStatus pollNext(ReaderOutput<Long> output) throws Exception {
            for (FileSplit split : new ArrayList<>(splits.values())) {
                if (paused.contains(split.id())) {
                    continue;
                }
                SourceOutput<Long> out = output.createOutputForSplit(split.id());
                RandomAccessFile file = open.get(split.id());
                if (file == null) {
                    if (!Files.exists(Path.of(split.path()))) {
                        continue;
                    }
                    file = new RandomAccessFile(split.path(), "r");
                    file.seek(split.offset());
                    open.put(split.id(), file);
                }
                long before = file.getFilePointer();
                String line = file.readLine();
                if (line == null || line.isEmpty()) {
                    file.seek(before);
                    continue;
                }
                splits.put(split.id(), new FileSplit(split.id(), split.path(), file.getFilePointer()));
                if (line.equals("FAIL")) {
                    throw new IOException("the test asked for this failure");
                }
                if (line.equals("END")) {
                    output.releaseOutputForSplit(split.id());
                    splits.remove(split.id());
                    return ends && splits.isEmpty() ? InputStatus.END_OF_INPUT : InputStatus.MORE_AVAILABLE;
                }
                out.collect(Long.valueOf(line), Long.parseLong(line));
                return InputStatus.MORE_AVAILABLE;
            }
            return InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public List<FileSplit> snapshotState(long checkpoint) {
            return new ArrayList<>(splits.values());
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            if (available.isDone()) { // one timer: Flink asks often
                available = new CompletableFuture<Void>().completeOnTimeout(null, 50, TimeUnit.MILLISECONDS);
            }
            return available;
        }

        @Override
        public void addSplits(List<FileSplit> added) {
            for (FileSplit split : added) {
                splits.put(split.id(), split);
            }
        }

        @Override
        public void pauseOrResumeSplits(Collection<String> pause, Collection<String> resume) {
            paused.addAll(pause);
            paused.removeAll(resume);
        }

        @Override
        public void notifyNoMoreSplits() {}

        @Override
        public void close() throws Exception {
            for (RandomAccessFile file : open.values()) {
                file.close();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        Configuration conf = configuration(options);
        List<JobClient> jobs = new ArrayList<>();
        for (String name : options.getOrDefault("names", "files").split(",")) {
            StreamExecutionEnvironment env = jobs.isEmpty()
                    ? StreamExecutionEnvironment.createLocalEnvironmentWithWebUI(conf)
                    : StreamExecutionEnvironment.createRemoteEnvironment("127.0.0.1", Integer.parseInt(options.get("port")));
            Map<String, String> own = new HashMap<>(options);
            options.forEach((key, value) -> {
                if (key.endsWith("-" + name)) {
                    own.put(key.substring(0, key.length() - name.length() - 1), value);
                }
            });
            build(env, own);
            jobs.add(env.executeAsync(name));
        }
        for (JobClient job : jobs) {
            try {
                job.getJobExecutionResult().get();
            } catch (Exception failed) {
                System.out.println("ended: " + failed.getCause());
            }
        }
        Thread.sleep(Long.parseLong(options.getOrDefault("stay", "600000")));
    }

    static Configuration configuration(Map<String, String> options) {
        Configuration conf = new Configuration();
        conf.setString("rest.address", "127.0.0.1");
        conf.setString("rest.bind-address", "127.0.0.1");
        conf.setString("rest.port", options.get("port"));
        conf.setString("rest.bind-port", options.get("port"));
        conf.setString("metrics.fetcher.update-interval", options.getOrDefault("fetch", "1000"));
        conf.setString("restart-strategy.type", "fixed-delay");
        conf.setString("restart-strategy.fixed-delay.attempts", options.getOrDefault("restarts", "10"));
        conf.setString("restart-strategy.fixed-delay.delay", options.getOrDefault("restart-delay", "3 s"));
        conf.setString("taskmanager.numberOfTaskSlots", options.getOrDefault("slots", "8"));
        if (options.containsKey("adaptive")) { // rescales at once
            conf.setString("jobmanager.scheduler", "adaptive");
            conf.setString("jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling", "0 s");
            conf.setString("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", "0 s");
        }
        conf.setString("taskmanager.memory.segment-size", "4kb"); // many subtasks in little memory
        conf.setString("taskmanager.network.memory.buffers-per-channel", "0");
        conf.setString("taskmanager.memory.network.min", options.getOrDefault("network", "128mb"));
        conf.setString("taskmanager.memory.network.max", options.getOrDefault("network", "128mb"));
        return conf;
    }

    static void build(StreamExecutionEnvironment env, Map<String, String> options) {
        int parallelism = Integer.parseInt(options.getOrDefault("parallelism", "2"));
        env.setParallelism(parallelism);
        Duration lateness = Duration.ofMillis(Long.parseLong(options.getOrDefault("lateness", "0")));
        Duration window = Duration.ofMillis(Long.parseLong(options.getOrDefault("window", "60000")));
        WatermarkStrategy<Long> strategy = options.containsKey("no-watermarks")
                ? WatermarkStrategy.noWatermarks()
                : WatermarkStrategy.<Long>forBoundedOutOfOrderness(lateness);
        if (options.containsKey("idle")) {
            strategy = strategy.withIdleness(Duration.ofMillis(Long.parseLong(options.get("idle"))));
        }
        if (options.containsKey("align")) {
            strategy = strategy.withWatermarkAlignment("group", Duration.ofMillis(Long.parseLong(options.get("align"))), Duration.ofMillis(200));
        }
        DataStream<Long> all = null;
        for (String name : options.getOrDefault("sources", "in").split(",")) {
            FilesSource source = new FilesSource(options.get("dir"), name, Integer.parseInt(options.getOrDefault("splits", "3")), options.containsKey("ends"));
            DataStream<Long> one = env.fromSource(source, strategy, "Source " + name, org.apache.flink.api.common.typeinfo.Types.LONG);
            all = all == null ? one : all.union(one);
        }
        if (options.containsKey("assign")) { // watermarks of the even seconds alone, by an operator with a name of its own
            all = all.filter(value -> value / 1000 % 2 == 0)
                    .assignTimestampsAndWatermarks(WatermarkStrategy.<Long>forBoundedOutOfOrderness(lateness)).name("Event time");
        }
        if (options.containsKey("busy")) { // ms a record, in a vertex of its own
            long busy = Long.parseLong(options.get("busy"));
            all = all.map(value -> {
                Thread.sleep(busy);
                return value;
            }).returns(org.apache.flink.api.common.typeinfo.Types.LONG).name("Slow map").startNewChain();
        }
        if (options.containsKey("plain")) { // without windows: each subtask has its own input only
            int some = Integer.parseInt(options.getOrDefault("rescale", "" + parallelism)); // or some of them
            DataStream<Long> in = options.containsKey("rescale") ? all.rescale() : all;
            in.map(value -> value).returns(org.apache.flink.api.common.typeinfo.Types.LONG).setParallelism(some)
                    .sinkTo(new DiscardingSink<>()).setParallelism(some).name("Sink");
            return;
        }
        ReduceFunction<Long> last = (a, b) -> Math.max(a, b);
        if (options.containsKey("count")) {
            all.keyBy(value -> value % 4).countWindow(Integer.parseInt(options.get("count"))).reduce(last).name("Window by count").sinkTo(new DiscardingSink<>());
            return;
        }
        DataStream<Long> out = all.keyBy(value -> value % 4).window(TumblingEventTimeWindows.of(window)).reduce(last).name("Window " + window.toSeconds() + "s");
        if (options.containsKey("chain")) {
            out = out.keyBy(value -> value % 2).window(TumblingEventTimeWindows.of(window.multipliedBy(5))).reduce(last).name("Second window");
        }
        out.sinkTo(new DiscardingSink<>()).name("Sink");
    }
}
