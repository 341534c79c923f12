import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.TreeSet;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/** Kafka's own record classes at the other end of tests/compat/test_records_java.py: "write DIR" or "read DIR". */
public final class RecordBatches {
    private static final long NOW = 1_700_000_000_000L;
    private static final long DELETE_HORIZON = NOW + 86_400_000L;

    public static void main(String[] args) throws IOException {
        Path directory = Path.of(args[1]);
        if (args[0].equals("write")) {
            write(directory);
        }
        TreeSet<Path> files = new TreeSet<>();
        try (var found = Files.newDirectoryStream(directory, "*.bin")) {
            found.forEach(files::add);
        }
        for (Path file : files) {
            Path text = directory.resolve(file.getFileName().toString().replace(".bin", ".txt"));
            Files.write(text, dump(ByteBuffer.wrap(Files.readAllBytes(file))));
        }
    }

    private static void write(Path directory) throws IOException {
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            for (byte magic = type == CompressionType.ZSTD ? (byte) 2 : 0; magic <= 2; magic++) {
                String name = "v" + magic + "-" + type.name + "-";
                save(directory, name + "create", magic, codec, TimestampType.CREATE_TIME, false, RecordBatch.NO_TIMESTAMP);
                if (magic > 0) {
                    save(directory, name + "append", magic, codec, TimestampType.LOG_APPEND_TIME, false, RecordBatch.NO_TIMESTAMP);
                }
            }
            save(directory, "v2-" + type.name + "-horizon", (byte) 2, codec, TimestampType.CREATE_TIME, false, DELETE_HORIZON);
            save(directory, "v2-" + type.name + "-transactional", (byte) 2, codec, TimestampType.CREATE_TIME, true, RecordBatch.NO_TIMESTAMP);
        }
        for (ControlRecordType type : List.of(ControlRecordType.ABORT, ControlRecordType.COMMIT)) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(
                    77, NOW, 5, 9, (short) 1, new EndTransactionMarker(type, 3));
            Files.write(directory.resolve("control-" + type + ".bin"), bytes(marker.buffer()));
        }
    }

    private static void save(Path directory, String name, byte magic, Compression codec, TimestampType timestampType,
                             boolean transactional, long deleteHorizon) throws IOException {
        boolean append = timestampType == TimestampType.LOG_APPEND_TIME;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                new ByteBufferOutputStream(1 << 20), magic, codec, timestampType, 1000L, append ? NOW + 5 : RecordBatch.NO_TIMESTAMP,
                transactional ? 9L : RecordBatch.NO_PRODUCER_ID, transactional ? (short) 1 : RecordBatch.NO_PRODUCER_EPOCH,
                transactional ? 4 : RecordBatch.NO_SEQUENCE, transactional, false, 5, 1 << 20, deleteHorizon);
        Random random = new Random(1);
        for (int i = 0; i < 100; i++) {
            byte[] key = i % 7 == 0 ? null : ("key-" + i).getBytes(StandardCharsets.UTF_8);
            byte[] value = new byte[i % 10 == 9 ? 9000 : i * 3];
            if (i % 3 > 0) {
                random.nextBytes(value);
            }
            Header[] headers = magic < 2 || i % 4 > 0 ? new Header[0]
                    : new Header[] {new RecordHeader("h\u00e9", new byte[] {1, 2}), new RecordHeader("h\u00e9", null)};
            long timestamp = magic == 0 ? RecordBatch.NO_TIMESTAMP : NOW - (i * 37L % 11) * 1000;
            builder.appendWithOffset(1000L + i + i / 30, timestamp, key, i % 5 == 4 ? null : value, headers);
        }
        Files.write(directory.resolve(name + ".bin"), bytes(builder.build().buffer()));
    }

    private static List<String> dump(ByteBuffer buffer) {
        List<String> lines = new ArrayList<>();
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(buffer).batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                List<String> fields = new ArrayList<>(List.of(
                        Long.toString(record.offset()), Long.toString(record.timestamp()), hex(record.key()), hex(record.value())));
                for (Header header : record.headers()) {
                    fields.add(hex(ByteBuffer.wrap(header.key().getBytes(StandardCharsets.UTF_8))) + "="
                            + (header.value() == null ? "null" : hex(ByteBuffer.wrap(header.value()))));
                }
                lines.add(String.join(" ", fields));
            }
        }
        return lines;
    }

    private static String hex(ByteBuffer data) {
        return data == null ? "null" : "x" + HexFormat.of().formatHex(bytes(data));
    }

    private static byte[] bytes(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
