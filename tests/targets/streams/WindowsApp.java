import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;

/**
 * Counts by key and window of event time, tumbling unless `advance` is given; emits `KEY END` to `out`. Each record takes
 * `delay` ms. Its options are NAME=VALUE. It prints the default of `commit.interval.ms`, and at its end what it dropped.
 */
public final class WindowsApp {
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        String mode = options.getOrDefault("mode", "suppress");
        long size = Long.parseLong(options.getOrDefault("size", "10000"));
        long grace = Long.parseLong(options.getOrDefault("grace", "2000"));
        long advance = Long.parseLong(options.getOrDefault("advance", String.valueOf(size)));
        long delay = Long.parseLong(options.getOrDefault("delay", "0"));
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> records = null;
        for (String topic : options.get("in").split(",")) {
            KStream<String, String> more = builder.stream(topic);
            records = records == null ? more : records.merge(more);
        }
        records = records.peek((key, value) -> pause(delay));
        if (mode.equals("repartition")) {
            records = records.map((key, value) -> KeyValue.pair(value, value));
        }
        if (mode.equals("stateless")) {
            records.to(options.get("out"));
        } else {
            TimeWindowedKStream<String, String> windows = records.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(size), Duration.ofMillis(grace))
                    .advanceBy(Duration.ofMillis(advance)));
            if (mode.equals("onclose")) {
                windows = emittedOnClose(windows);
            }
            KTable<Windowed<String>, Long> counts =
                windows.count(Materialized.with(Serdes.String(), Serdes.Long()));
            if (mode.equals("suppress") || mode.equals("repartition")) {
                counts = counts.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
            }
            counts.toStream((Windowed<String> window, Long count) -> window.key() + " " + window.window().end())
                .mapValues(String::valueOf)
                .to(options.get("out"));
        }
        Properties properties = new Properties();
        properties.put("application.id", options.get("id"));
        properties.put("bootstrap.servers", options.get("bootstrap"));
        properties.put("state.dir", options.get("state"));
        properties.put("auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.String().getClass().getName());
        properties.put("default.value.serde", Serdes.String().getClass().getName());
        properties.put("processing.guarantee", options.getOrDefault("guarantee", "at_least_once"));
        if (mode.equals("onclose")) {
            properties.put("statestore.cache.max.bytes", "0");
        }
        if (options.containsKey("protocol")) {
            properties.put("group.protocol", options.get("protocol"));
        }
        System.out.println("default commit.interval.ms " + new StreamsConfig(properties).getLong("commit.interval.ms"));
        properties.put("commit.interval.ms", options.getOrDefault("commit", "500"));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.println("dropped-records-total " + dropped(streams));
            streams.close();
        }));
        streams.start();
    }

    /** What the metrics of its tasks count. */
    private static long dropped(KafkaStreams streams) {
        double sum = 0;
        for (Metric metric : streams.metrics().values()) {
            if (metric.metricName().name().equals("dropped-records-total")) {
                sum += ((Number) metric.metricValue()).doubleValue();
            }
        }
        return (long) sum;
    }

    private static void pause(long delay) {
        try {
            Thread.sleep(delay);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** By name: releases before 3.3 do not have it. */
    @SuppressWarnings("unchecked")
    private static TimeWindowedKStream<String, String> emittedOnClose(TimeWindowedKStream<String, String> windows)
            throws ReflectiveOperationException {
        Class<?> strategy = Class.forName("org.apache.kafka.streams.kstream.EmitStrategy");
        Object onClose = strategy.getMethod("onWindowClose").invoke(null);
        return (TimeWindowedKStream<String, String>)
            TimeWindowedKStream.class.getMethod("emitStrategy", strategy).invoke(windows, onClose);
    }
}
