import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The job of `FlinkWindows` on a topic: a partition is a channel, a record's timestamp its event time.
 * Arguments: bootstrap, topic, subtasks; or bootstrap, topic, `fill`, files: sends their records, 12 bytes each
 * (partition, timestamp), in their order, with values of about 100 bytes of JSON.
 */
public class FlinkKafka {
    static class Columns implements KafkaRecordDeserializationSchema<Tuple2<Integer, Long>> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<Tuple2<Integer, Long>> out) {
            out.collect(Tuple2.of(record.partition(), record.timestamp()));
        }

        @Override
        public TypeInformation<Tuple2<Integer, Long>> getProducedType() {
            return Types.TUPLE(Types.INT, Types.LONG);
        }
    }

    static void fill(String bootstrap, String topic, String file) throws IOException {
        Map<String, Object> settings = Map.of(
                "bootstrap.servers", bootstrap, "acks", "1", "linger.ms", 50, "batch.size", 131_072, "buffer.memory", 134_217_728L);
        try (KafkaProducer<byte[], byte[]> producer =
                        new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
                FileChannel channel = FileChannel.open(Path.of(file))) {
            ByteBuffer records = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            for (long id = 0; records.hasRemaining(); id++) {
                int partition = records.getInt();
                long time = records.getLong();
                String value = "{\"ts\":" + time + ",\"id\":" + id + ",\"user\":\"user-" + id * 7919 % 5000
                        + "\",\"page\":\"/products/" + id * 31 % 20000 + "\",\"took_ms\":" + id % 997 + ",\"ok\":true}";
                producer.send(new ProducerRecord<>(topic, partition, time, null, value.getBytes(StandardCharsets.US_ASCII)));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        if (arguments[2].equals("fill")) {
            for (int at = 3; at < arguments.length; at++) {
                fill(bootstrap, topic, arguments[at]);
            }
            return;
        }
        FlinkWindows.run(
                FlinkWindows.environment(Integer.parseInt(arguments[2])),
                KafkaSource.<Tuple2<Integer, Long>>builder()
                        .setBootstrapServers(bootstrap)
                        .setTopics(topic)
                        .setStartingOffsets(OffsetsInitializer.earliest())
                        .setBounded(OffsetsInitializer.latest())
                        .setDeserializer(new Columns())
                        .build());
    }
}
