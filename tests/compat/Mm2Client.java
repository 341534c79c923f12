import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.OffsetSync;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;
import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/** MM2's own client, records and formatters at the other end of tests/compat/test_client_java.py: "QUESTIONS ANSWERS". */
public final class Mm2Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration TIMEOUT = Duration.ofSeconds(30);
    /** Each reading of checkpoints waits half a second for a fetch that finds nothing: they wait side by side. */
    private static final ExecutorService POOL = Executors.newCachedThreadPool();

    public static void main(String[] args) throws Exception {
        JsonNode questions = JSON.readTree(new File(args[0]));
        ObjectNode answers = JSON.createObjectNode();
        List<Future<ObjectNode>> asked = new ArrayList<>();
        for (JsonNode client : questions.get("clients")) {
            asked.add(POOL.submit(() -> asked(client)));
        }
        ArrayNode records = answers.putArray("records");
        for (JsonNode record : questions.get("records")) {
            records.add(reencoded(record));
        }
        ArrayNode printed = answers.putArray("printed");
        for (JsonNode topic : questions.get("printed")) {
            printed.add(print(topic));
        }
        ArrayNode clients = answers.putArray("clients");
        for (Future<ObjectNode> each : asked) {
            clients.add(each.get());
        }
        POOL.shutdown();
        JSON.writeValue(new File(args[1]), answers);
    }

    /** What MirrorClient and RemoteClusterUtils answer, where both have the call. */
    private static ObjectNode asked(JsonNode client) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        client.get("properties").properties().forEach(each -> properties.put(each.getKey(), each.getValue().asText()));
        Map<String, Future<?>> own = new TreeMap<>();
        Map<String, Future<?>> utils = new TreeMap<>();
        ObjectNode both = JSON.createObjectNode();
        try (MirrorClient mirror = new MirrorClient(properties)) {
            own.put("heartbeat_topics", POOL.submit(() -> new TreeSet<>(mirror.heartbeatTopics())));
            own.put("checkpoint_topics", POOL.submit(() -> new TreeSet<>(mirror.checkpointTopics())));
            own.put("upstream_clusters", POOL.submit(() -> new TreeSet<>(mirror.upstreamClusters())));
            own.put("remote_topics", POOL.submit(() -> new TreeSet<>(mirror.remoteTopics())));
            utils.put("heartbeat_topics", POOL.submit(() -> new TreeSet<>(RemoteClusterUtils.heartbeatTopics(properties))));
            utils.put("checkpoint_topics", POOL.submit(() -> new TreeSet<>(RemoteClusterUtils.checkpointTopics(properties))));
            utils.put("upstream_clusters", POOL.submit(() -> new TreeSet<>(RemoteClusterUtils.upstreamClusters(properties))));
            for (JsonNode alias : client.get("aliases")) {
                String name = alias.asText();
                own.put("remote_topics " + name, POOL.submit(() -> new TreeSet<>(mirror.remoteTopics(name))));
                own.put("replication_hops " + name, POOL.submit(() -> mirror.replicationHops(name)));
                utils.put("replication_hops " + name, POOL.submit(() -> RemoteClusterUtils.replicationHops(properties, name)));
            }
            for (JsonNode each : client.get("groups")) {
                String group = each.get(0).asText();
                String alias = each.get(1).asText();
                String key = "group " + group + " of " + alias;
                own.put(key, POOL.submit(() -> positions(mirror.remoteConsumerOffsets(group, alias, TIMEOUT))));
                utils.put(key, POOL.submit(() -> positions(RemoteClusterUtils.translateOffsets(properties, alias, group, TIMEOUT))));
            }
            for (JsonNode each : client.get("patterns")) {
                Pattern groups = Pattern.compile(each.get(0).asText());
                String alias = each.get(1).asText();
                String key = "pattern " + groups + " of " + alias;
                own.put(key, POOL.submit(() -> groups(mirror.remoteConsumerOffsets(groups, alias, TIMEOUT))));
                utils.put(key, POOL.submit(() -> groups(RemoteClusterUtils.translateOffsets(properties, alias, groups, TIMEOUT))));
            }
            both.set("client", settled(own));
            both.set("utils", settled(utils));
        }
        return both;
    }

    private static ObjectNode settled(Map<String, Future<?>> questions) throws Exception {
        ObjectNode answers = JSON.createObjectNode();
        for (Map.Entry<String, Future<?>> each : questions.entrySet()) {
            try {
                answers.set(each.getKey(), JSON.valueToTree(each.getValue().get()));
            } catch (ExecutionException error) {
                answers.put(each.getKey(), error.getCause().getClass().getName());
            }
        }
        return answers;
    }

    private static Map<String, Object> groups(Map<String, Map<TopicPartition, OffsetAndMetadata>> groups) {
        Map<String, Object> found = new HashMap<>();
        groups.forEach((group, offsets) -> found.put(group, positions(offsets)));
        return found;
    }

    private static Map<String, Object> positions(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<String, Object> found = new HashMap<>();
        offsets.forEach((partition, position) ->
                found.put(partition.toString(), new Object[] {position.offset(), position.metadata()}));
        return found;
    }

    /** A record's bytes read by MM2's class, and written by it again from the fields alone. */
    private static ObjectNode reencoded(JsonNode record) throws Exception {
        ConsumerRecord<byte[], byte[]> read = new ConsumerRecord<>("t", 0, 0L,
                HexFormat.of().parseHex(record.get("key").asText()), HexFormat.of().parseHex(record.get("value").asText()));
        Object written = switch (record.get("kind").asText()) {
            case "Heartbeat" -> {
                Heartbeat each = Heartbeat.deserializeRecord(read);
                yield new Heartbeat(each.sourceClusterAlias(), each.targetClusterAlias(), each.timestamp());
            }
            case "Checkpoint" -> {
                Checkpoint each = Checkpoint.deserializeRecord(read);
                yield new Checkpoint(each.consumerGroupId(), each.topicPartition(), each.upstreamOffset(),
                        each.downstreamOffset(), each.metadata());
            }
            default -> {
                OffsetSync each = OffsetSync.deserializeRecord(read);
                yield new OffsetSync(each.topicPartition(), each.upstreamOffset(), each.downstreamOffset());
            }
        };
        ObjectNode answer = JSON.createObjectNode();
        answer.put("text", written.toString());
        answer.put("key", bytes(written, "recordKey"));
        answer.put("value", bytes(written, "recordValue"));
        return answer;
    }

    private static String bytes(Object record, String name) throws Exception {
        Method method = record.getClass().getDeclaredMethod(name);
        method.setAccessible(true);
        return HexFormat.of().formatHex((byte[]) method.invoke(record));
    }

    /** What kafka-console-consumer prints of a topic. */
    private static ArrayNode print(JsonNode topic) throws Exception {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        PrintStream stdout = System.out;
        System.setOut(new PrintStream(output, true, StandardCharsets.UTF_8));
        try {
            ConsoleConsumer.run(new ConsoleConsumerOptions(new String[] {
                "--bootstrap-server", topic.get("servers").asText(), "--topic", topic.get("topic").asText(),
                "--partition", "0", "--offset", "earliest", "--max-messages", topic.get("count").asText(),
                "--timeout-ms", "30000",
                "--formatter", "org.apache.kafka.connect.mirror.formatters." + topic.get("formatter").asText()}));
        } finally {
            System.out.flush();
            System.setOut(stdout);
        }
        ArrayNode lines = JSON.createArrayNode();
        output.toString(StandardCharsets.UTF_8).lines().forEach(lines::add);
        return lines;
    }
}
