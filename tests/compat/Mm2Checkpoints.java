import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.MirrorCheckpointTask;
import org.apache.kafka.connect.source.SourceRecord;

/** MM2's checkpoint task as Connect would run it, until each group has a checkpoint: "PROPERTIES CHECKPOINTS". */
public final class Mm2Checkpoints {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long PATIENCE_MS = 60_000;

    @SuppressWarnings("unchecked")
    public static void main(String[] args) throws Exception {
        Map<String, String> properties = new HashMap<>(JSON.readValue(new File(args[0]), Map.class));
        Set<String> missing = new HashSet<>(List.of(properties.get("task.assigned.groups").split(",")));
        ArrayNode found = JSON.createArrayNode();
        MirrorCheckpointTask task = new MirrorCheckpointTask();
        task.start(properties);
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!missing.isEmpty() && System.currentTimeMillis() < deadline) {
            List<SourceRecord> records = task.poll();
            for (SourceRecord record : records == null ? List.<SourceRecord>of() : records) {
                Checkpoint checkpoint = Checkpoint.deserializeRecord(
                    new ConsumerRecord<>(record.topic(), 0, 0, (byte[]) record.key(), (byte[]) record.value()));
                missing.remove(checkpoint.consumerGroupId());
                ObjectNode node = found.addObject();
                node.put("group", checkpoint.consumerGroupId());
                node.put("partition", checkpoint.topicPartition().toString());
                node.put("upstream", checkpoint.upstreamOffset());
                node.put("downstream", checkpoint.downstreamOffset());
            }
        }
        JSON.writeValue(new File(args[1]), found);
        // Admin clients and the scheduler have threads that would be waited for.
        System.exit(0);
    }
}
