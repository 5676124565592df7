import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.helix.HelixAdmin;
import org.apache.helix.HelixManager;
import org.apache.helix.HelixManagerFactory;
import org.apache.helix.InstanceType;
import org.apache.helix.constants.InstanceConstants.InstanceOperation;
import org.apache.helix.manager.zk.ZKHelixAdmin;
import org.apache.helix.model.InstanceConfig;
import org.apache.helix.model.MasterSlaveSMD;
import org.apache.helix.model.OnlineOfflineSMD;
import org.apache.helix.tools.commandtools.YAMLClusterSetup;
import org.apache.helix.userdefinedrebalancer.LockManagerRebalancer;

/**
 * Controllers and participants of Helix in one process, which do as their parent says.
 *
 * <p>Its argument is JSON: `zookeeper`, the address. Each line of its input is answered by one line:
 *
 * <pre>
 *     {"do": "setup", "file": PATH}                     {"done": true}: Helix' own loader has read the file
 *     {"do": "rule", "descending": BOOL, "failing": BOOL}      {"done": true}
 *     {"do": "control", "cluster": NAME, "name": NAME}         {"done": true}: the controller is a candidate
 *     {"do": "join", "cluster": NAME, "name": INSTANCE, "model": NAME, "whole": BOOL}    {"done": true}: it is live
 *     {"do": "leave", "name": NAME}                     {"done": true}: a controller or a participant has ended
 *     {"do": "admin", "call": WORD, "cluster": NAME, ...}      {"done": true}: Helix' own administrator has done it
 *     {"do": "ordered", "cluster": NAME, "name": INSTANCE}     {"operation": WORD, "evacuated": BOOL}, as it sees them
 *     {"do": "leads", "name": NAME}                     {"leads": BOOL}
 *     {"do": "heard"}    {"heard": [[NS, INSTANCE, LOCK, SOURCE, TARGET], ...]}: every callback so far
 * </pre>
 *
 * What Helix throws is answered as {"error": CLASS, "text": TEXT}.
 */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String zooKeeper;
    private final Map<String, HelixManager> running = new HashMap<>();
    private final Queue<LockModel.Heard> heard = new ConcurrentLinkedQueue<>();

    private Driver(String zooKeeper) {
        this.zooKeeper = zooKeeper;
    }

    private ObjectNode answer(JsonNode asked) throws Exception {
        ObjectNode told = JSON.createObjectNode();
        switch (asked.get("do").asText()) {
            case "setup":
                try (InputStream file = new FileInputStream(asked.get("file").asText())) {
                    new YAMLClusterSetup(zooKeeper).setupCluster(file);
                }
                break;
            case "rule":
                LockManagerRebalancer.isDescending = asked.get("descending").asBoolean();
                LockManagerRebalancer.isFailing = asked.get("failing").asBoolean();
                break;
            case "control":
                connect(asked, InstanceType.CONTROLLER).connect();
                break;
            case "join":
                HelixManager participant = connect(asked, InstanceType.PARTICIPANT);
                participant
                        .getStateMachineEngine()
                        .registerStateModelFactory(
                                asked.get("model").asText(),
                                new LockModel.Factory(
                                        heard,
                                        asked.get("name").asText(),
                                        asked.get("model").asText(),
                                        asked.get("whole").asBoolean()));
                participant.connect();
                break;
            case "leave":
                running.remove(asked.get("name").asText()).disconnect();
                break;
            case "admin":
                administer(new ZKHelixAdmin(zooKeeper), asked);
                break;
            case "ordered":
                HelixAdmin admin = new ZKHelixAdmin(zooKeeper);
                String cluster = asked.get("cluster").asText();
                String instance = asked.get("name").asText();
                told.put(
                        "operation",
                        admin.getInstanceConfig(cluster, instance)
                                .getInstanceOperation()
                                .getOperation()
                                .name());
                return told.put("evacuated", admin.isEvacuateFinished(cluster, instance));
            case "leads":
                return told.put("leads", running.get(asked.get("name").asText()).isLeader());
            case "heard":
                ArrayNode all = told.putArray("heard");
                for (LockModel.Heard each : heard) {
                    all.addArray()
                            .add(each.ns())
                            .add(each.instance())
                            .add(each.lock())
                            .add(each.source())
                            .add(each.target());
                }
                return told;
            default:
                throw new IllegalArgumentException(asked.toString());
        }
        return told.put("done", true);
    }

    /** One act of Helix' own administrator. Further fields: name, of an instance; resource; lock; enabled. */
    private static void administer(HelixAdmin admin, JsonNode asked) {
        String cluster = asked.get("cluster").asText();
        String name = asked.path("name").asText();
        String resource = asked.path("resource").asText();
        boolean enabled = asked.path("enabled").asBoolean();
        switch (asked.get("call").asText()) {
            case "add-cluster":
                admin.addCluster(cluster);
                admin.addStateModelDef(cluster, "OnlineOffline", OnlineOfflineSMD.build());
                admin.addStateModelDef(cluster, "MasterSlave", MasterSlaveSMD.build());
                break;
            case "add-instance":
                InstanceConfig config = new InstanceConfig(name);
                config.setHostName(asked.get("host").asText());
                config.setPort(asked.get("port").asText());
                admin.addInstance(cluster, config);
                break;
            case "add-resource":
                admin.addResource(
                        cluster,
                        resource,
                        asked.get("count").asInt(),
                        asked.get("model").asText(),
                        asked.get("mode").asText());
                admin.rebalance(cluster, resource, asked.get("replicas").asInt());
                break;
            case "enable-instance":
                admin.enableInstance(cluster, name, enabled);
                break;
            case "operation":
                admin.setInstanceOperation(
                        cluster, name, InstanceOperation.valueOf(asked.get("operation").asText()), "an experiment");
                break;
            case "maintenance":
                admin.manuallyEnableMaintenanceMode(cluster, enabled, "an experiment", Map.of());
                break;
            case "enable-lock":
                admin.enablePartition(enabled, cluster, name, resource, List.of(asked.get("lock").asText()));
                break;
            case "enable-resource":
                admin.enableResource(cluster, resource, enabled);
                break;
            case "enable-cluster":
                admin.enableCluster(cluster, enabled);
                break;
            case "drop-instance":
                admin.dropInstance(cluster, admin.getInstanceConfig(cluster, name));
                break;
            case "drop-resource":
                admin.dropResource(cluster, resource);
                break;
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    private HelixManager connect(JsonNode asked, InstanceType type) {
        String name = asked.get("name").asText();
        HelixManager made =
                HelixManagerFactory.getZKHelixManager(asked.get("cluster").asText(), name, type, zooKeeper);
        running.put(name, made);
        return made;
    }

    public static void main(String[] arguments) throws Exception {
        // Answers alone go to the parent: what Helix prints goes where its log goes.
        PrintStream answers = System.out;
        System.setOut(System.err);
        Driver driver = new Driver(JSON.readTree(arguments[0]).get("zookeeper").asText());
        answers.println("{\"ready\": true}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode told;
            try {
                told = driver.answer(JSON.readTree(line));
            } catch (Exception error) {
                told = JSON.createObjectNode();
                told.put("error", error.getClass().getSimpleName()).put("text", String.valueOf(error.getMessage()));
            }
            answers.println(told);
            answers.flush();
        }
        System.exit(0);
    }
}
