import com.amazonaws.services.dynamodbv2.AcquireLockOptions;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClient;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBLockClientOptions;
import com.amazonaws.services.dynamodbv2.LockItem;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.retry.RetryPolicy;
import software.amazon.awssdk.protocols.jsoncore.JsonNode;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

/**
 * One client of dynamodb-lock-client with holdLockOnServiceUnavailable, which locks as its parent says.
 *
 * <p>Its argument is JSON, all of it text: `endpoint`, `warm_endpoint`, `region`, `table`, `owner`, `lease_ms`. There is
 * no background thread, and the SDK does not repeat a request. Before it is ready, it locks a row of its own by the
 * second endpoint: a first request takes seconds, in which classes are loaded, and they would count as waiting. Each line
 * of its input is answered by one line:
 *
 * <pre>
 *     {"do": "acquire", "key": KEY, "refresh_ms": TEXT, "additional_ms": TEXT}
 *                           {"acquired": true}, or {"error": CLASS}
 *     {"do": "heartbeat"}   {"renewed": true}, or {"error": CLASS}. Also after a 503
 *     {"do": "wait", "ms": TEXT}  {"waited": true}, that much later
 *     {"do": "expired"}     {"expired": BOOL}: what the lock says of itself
 *     {"do": "release"}     {"released": BOOL}, or {"error": CLASS}
 * </pre>
 */
public final class Driver {
    private final AmazonDynamoDBLockClient client;
    private LockItem held;

    private Driver(Map<String, JsonNode> told, String endpoint, String leaseMs) {
        DynamoDbClient table =
                DynamoDbClient.builder()
                        .endpointOverride(URI.create(endpoint))
                        .region(Region.of(told.get("region").asString()))
                        .credentialsProvider(StaticCredentialsProvider.create(AwsBasicCredentials.create("k", "s")))
                        .overrideConfiguration(how -> how.retryPolicy(RetryPolicy.none()))
                        .build();
        client =
                new AmazonDynamoDBLockClient(
                        AmazonDynamoDBLockClientOptions.builder(table, told.get("table").asString())
                                .withOwnerName(told.get("owner").asString())
                                .withTimeUnit(TimeUnit.MILLISECONDS)
                                .withLeaseDuration(Long.valueOf(leaseMs))
                                .withHeartbeatPeriod(1L)
                                .withCreateHeartbeatBackgroundThread(false)
                                .withHoldLockOnServiceUnavailable(true)
                                .build());
    }

    /** Every kind of request once, and a refused one. */
    private void warm() throws InterruptedException {
        held = client.acquireLock(AcquireLockOptions.builder("warm-up").build());
        held.sendHeartBeat();
        if (!client.releaseLock(held) || client.releaseLock(held)) {
            throw new IllegalStateException("the first release deletes the row, the second finds none");
        }
    }

    private String answer(Map<String, JsonNode> asked) throws InterruptedException {
        switch (asked.get("do").asString()) {
            case "acquire":
                held =
                        client.acquireLock(
                                AcquireLockOptions.builder(asked.get("key").asString())
                                        .withTimeUnit(TimeUnit.MILLISECONDS)
                                        .withRefreshPeriod(Long.valueOf(asked.get("refresh_ms").asString()))
                                        .withAdditionalTimeToWaitForLock(
                                                Long.valueOf(asked.get("additional_ms").asString()))
                                        .build());
                return "{\"acquired\": true}";
            case "heartbeat":
                held.sendHeartBeat();
                return "{\"renewed\": true}";
            case "wait":
                Thread.sleep(Long.parseLong(asked.get("ms").asString()));
                return "{\"waited\": true}";
            case "expired":
                return "{\"expired\": " + held.isExpired() + "}";
            case "release":
                return "{\"released\": " + client.releaseLock(held) + "}";
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    private static Map<String, JsonNode> read(String line) {
        return JsonNode.parser().parse(line).asObject();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, JsonNode> options = read(arguments[0]);
        new Driver(options, options.get("warm_endpoint").asString(), "60000").warm();
        Driver driver = new Driver(options, options.get("endpoint").asString(), options.get("lease_ms").asString());
        System.out.println("{\"ready\": true}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, JsonNode> asked = read(line);
            String told;
            try {
                told = driver.answer(asked);
            } catch (IllegalArgumentException error) {
                // A lease that is not a number is a NumberFormatException, which is one of these.
                if (!(error instanceof NumberFormatException)) {
                    throw error;
                }
                told = named(error);
            } catch (RuntimeException error) {
                told = named(error);
            }
            System.out.println(told);
        }
    }

    private static String named(RuntimeException error) {
        return "{\"error\": \"" + error.getClass().getSimpleName() + "\"}";
    }
}
