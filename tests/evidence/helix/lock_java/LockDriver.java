import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.helix.lock.helix.HelixLockScope;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/**
 * Lock objects of helix-lock in one process, which do as their parent says.
 *
 * <p>Its argument is JSON: `zookeeper`, the address. Each line of its input is answered by one line, in any order; both
 * carry the same `id`:
 *
 * <pre>
 *     {"do": "path", "scope": NAME, "names": [...]}     {"answer": PATH}
 *     {"do": "make", "name": NAME, "path": PATH, ...}   {"answer": true}: a lock object (see Subject)
 *     {"do": "call", "name": NAME, "call": CALL}        what a call answers; try waits until it is decided
 *     {"do": "contend", "name": NAME, "counter": PATH, "until_ns": NS, "hold_ms": MS, "pause_ms": MS}
 *         {"held": [[FROM_NS, UNTIL_NS], ...]}: when it held, by the monotonic clock (see contend)
 *     {"do": "script", "path": PATH, "settle_ms": MS, "locks": [...], "steps": [...]}
 *         {"trace": [{"answer": ..., "body": TEXT or null, "version": N}, ...], "since_ms": MS}
 * </pre>
 *
 * A step is a list. ["put", TEXT] and ["delete"] are an operator's; in TEXT an @N stands for the instant in N ms.
 * ["sleep", MS] waits. ["try", I] begins to lock with the lock of that number, ["end", I] waits for what it answers;
 * ["unlock", I], ["owner", I], ["info", I] and ["close", I] are calls. After each step the driver waits until nobody has written for `settle_ms`.
 * What the original throws is answered as {"error": CLASS, "text": TEXT}.
 */
public final class LockDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Pattern INSTANT = Pattern.compile("@(-?[0-9]+)");

    private final String address;
    private final ZooKeeper operator;
    private final Map<String, Subject> subjects = new ConcurrentHashMap<>();

    private LockDriver(String address) throws Exception {
        this.address = address;
        this.operator = new ZooKeeper(address, 30000, event -> {});
    }

    private ObjectNode answer(JsonNode asked) throws Exception {
        switch (asked.get("do").asText()) {
            case "path":
                List<String> names = new ArrayList<>();
                asked.get("names").forEach(name -> names.add(name.asText()));
                return Subject.told(
                        () ->
                                new HelixLockScope(
                                                HelixLockScope.LockScopeProperty.valueOf(asked.get("scope").asText()),
                                                names)
                                        .getPath());
            case "make":
                return Subject.told(
                        () -> {
                            subjects.put(
                                    asked.get("name").asText(),
                                    new Subject(address, asked.get("path").asText(), asked));
                            return true;
                        });
            case "call":
                Subject subject = subjects.get(asked.get("name").asText());
                String call = asked.get("call").asText();
                return call.equals("try") ? Subject.told(subject.lock::tryLock) : subject.call(call);
            case "contend":
                return contend(subjects.get(asked.get("name").asText()), asked);
            case "script":
                return played(asked);
            default:
                throw new IllegalArgumentException(asked.toString());
        }
    }

    /** Lock, read the counter, work, write the counter plus one, unlock; again and again until the time is over. */
    private ObjectNode contend(Subject subject, JsonNode asked) throws Exception {
        ObjectNode told = JSON.createObjectNode();
        ArrayNode held = told.putArray("held");
        String counter = asked.get("counter").asText();
        while (System.nanoTime() < asked.get("until_ns").asLong()) {
            if (subject.lock.tryLock()) {
                long since = System.nanoTime();
                long found = Long.parseLong(new String(operator.getData(counter, false, null), StandardCharsets.UTF_8));
                Thread.sleep(asked.get("hold_ms").asLong());
                byte[] next = Long.toString(found + 1).getBytes(StandardCharsets.UTF_8);
                operator.setData(counter, next, -1);
                held.addArray().add(since).add(System.nanoTime());
                subject.lock.unlock();
            }
            Thread.sleep(asked.get("pause_ms").asLong());
        }
        return told;
    }

    private ObjectNode played(JsonNode script) throws Exception {
        String path = script.get("path").asText();
        ObjectNode told = JSON.createObjectNode().put("since_ms", System.currentTimeMillis());
        ArrayNode trace = told.putArray("trace");
        List<Subject> locks = new ArrayList<>();
        for (JsonNode settings : script.get("locks")) {
            locks.add(new Subject(address, path, settings));
        }
        for (JsonNode step : script.get("steps")) {
            ObjectNode seen = taken(path, step, locks);
            if (step.get(0).asText().equals("try")) {
                locks.get(step.get(1).asInt()).awaitRest();
            }
            settle(path, script.get("settle_ms").asLong());
            if (step.get(0).asText().equals("try")) {
                seen = locks.get(step.get(1).asInt()).soFar();
            }
            look(path, seen);
            trace.add(seen);
        }
        for (Subject lock : locks) {
            lock.discard();
        }
        return told;
    }

    private ObjectNode taken(String path, JsonNode step, List<Subject> locks) throws Exception {
        String what = step.get(0).asText();
        switch (what) {
            case "put":
                put(path, dated(step.get(1).asText()).getBytes(StandardCharsets.UTF_8));
                return JSON.createObjectNode();
            case "delete":
                if (operator.exists(path, false) != null) {
                    operator.delete(path, -1);
                }
                return JSON.createObjectNode();
            case "sleep":
                Thread.sleep(step.get(1).asLong());
                return JSON.createObjectNode();
            case "try":
                locks.get(step.get(1).asInt()).begin();
                return JSON.createObjectNode();
            case "end":
                return locks.get(step.get(1).asInt()).end();
            default:
                return locks.get(step.get(1).asInt()).call(what);
        }
    }

    private void put(String path, byte[] body) throws Exception {
        if (operator.exists(path, false) != null) {
            operator.setData(path, body, -1);
            return;
        }
        for (int end = path.indexOf('/', 1); end > 0; end = path.indexOf('/', end + 1)) {
            try {
                operator.create(path.substring(0, end), null, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            } catch (KeeperException.NodeExistsException present) {
                continue;
            }
        }
        operator.create(path, body, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
    }

    private static String dated(String text) {
        Matcher found = INSTANT.matcher(text);
        StringBuilder made = new StringBuilder();
        while (found.find()) {
            found.appendReplacement(
                    made, Long.toString(System.currentTimeMillis() + Long.parseLong(found.group(1))));
        }
        return found.appendTail(made).toString();
    }

    /** Wait until nobody has written for so long. */
    private void settle(String path, long settleMs) throws Exception {
        int known = -2;
        long since = System.nanoTime();
        while (System.nanoTime() - since < settleMs * 1_000_000) {
            Stat stat = operator.exists(path, false);
            int version = stat == null ? -1 : stat.getVersion();
            if (version != known) {
                known = version;
                since = System.nanoTime();
            }
            Thread.sleep(settleMs / 10);
        }
    }

    private void look(String path, ObjectNode seen) throws Exception {
        Stat stat = new Stat();
        try {
            byte[] body = operator.getData(path, false, stat);
            seen.put("body", body == null ? "" : new String(body, StandardCharsets.UTF_8));
            seen.put("version", stat.getVersion());
        } catch (KeeperException.NoNodeException absent) {
            seen.putNull("body").put("version", -1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        // Answers alone go to the parent: what Helix prints goes where its log goes.
        PrintStream answers = System.out;
        System.setOut(System.err);
        LockDriver driver = new LockDriver(JSON.readTree(arguments[0]).get("zookeeper").asText());
        ExecutorService threads = Executors.newCachedThreadPool();
        answers.println("{\"ready\": true}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = JSON.readTree(line);
            threads.submit(
                    () -> {
                        ObjectNode told;
                        try {
                            told = driver.answer(asked);
                        } catch (Exception error) {
                            told = Subject.thrown(error).put("failed", true);
                        }
                        told.set("id", asked.get("id"));
                        synchronized (answers) {
                            answers.println(told);
                            answers.flush();
                        }
                    });
        }
        System.exit(0);
    }
}
