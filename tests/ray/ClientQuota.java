import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/** BOOTSTRAP CLIENT_ID QUOTA BYTES_PER_SECOND: what kafka-configs --entity-type clients does. */
public final class ClientQuota {
    public static void main(String[] arguments) throws Exception {
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, arguments[1]));
        var operation = new ClientQuotaAlteration.Op(arguments[2], Double.valueOf(arguments[3]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(operation)))).all().get();
        }
    }
}
