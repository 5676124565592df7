import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.helix.lock.LockInfo;
import org.apache.helix.lock.helix.LockListener;
import org.apache.helix.lock.helix.ZKDistributedNonblockingLock;

/**
 * One lock object of the original.
 *
 * <p>Its settings: `user`, `lease_ms`, `message`, `priority`, `waiting_ms`, `cleanup_ms`, `is_forceful`; `cleanup`: how
 * long its listener takes, in milliseconds, or null for no listener.
 */
final class Subject {
    private static final ObjectMapper JSON = new ObjectMapper();

    final ZKDistributedNonblockingLock lock;
    private final AtomicInteger cleanups = new AtomicInteger();
    private CompletableFuture<ObjectNode> trying;
    private Thread thread;

    Subject(String address, String path, JsonNode settings) {
        JsonNode cleanup = settings.get("cleanup");
        LockListener listener =
                cleanup.isNull()
                        ? null
                        : () -> {
                            cleanups.incrementAndGet();
                            try {
                                Thread.sleep(cleanup.asLong());
                            } catch (InterruptedException error) {
                                throw new IllegalStateException(error);
                            }
                        };
        ZKDistributedNonblockingLock.Builder builder = new ZKDistributedNonblockingLock.Builder();
        builder.setZkAddress(address);
        lock =
                builder.setLockScope(() -> path)
                        .setUserId(settings.get("user").asText())
                        .setTimeout(settings.get("lease_ms").asLong())
                        .setLockMsg(settings.get("message").asText())
                        .setPriority(settings.get("priority").asInt())
                        .setWaitingTimeout(settings.get("waiting_ms").asLong())
                        .setCleanupTimeout(settings.get("cleanup_ms").asLong())
                        .setIsForceful(settings.get("is_forceful").asBoolean())
                        .setLockListener(listener)
                        .build();
    }

    /** Begin to lock, in a thread: the original may wait. */
    void begin() {
        trying = new CompletableFuture<>();
        CompletableFuture<ObjectNode> mine = trying;
        thread = new Thread(() -> mine.complete(told(lock::tryLock)));
        thread.start();
    }

    /** Wait until the latest `begin` is answered, or waits for an owner to clean up. */
    void awaitRest() throws InterruptedException {
        while (!trying.isDone() && !isWaiting()) {
            Thread.sleep(20);
        }
    }

    private boolean isWaiting() {
        StackTraceElement[] frames = thread.getStackTrace();
        for (int place = 1; place < frames.length; place++) {
            if (frames[place].getMethodName().equals("tryLock")) {
                return frames[place - 1].getClassName().endsWith("CountDownLatch");
            }
        }
        return false;
    }

    /** What the latest `begin` has come to, or that it waits. */
    ObjectNode soFar() {
        return trying.isDone() ? end() : JSON.createObjectNode().put("answer", "pending");
    }

    ObjectNode end() {
        return trying.join().deepCopy();
    }

    ObjectNode call(String call) {
        switch (call) {
            case "unlock":
                return told(lock::unlock);
            case "owner":
                return told(lock::isCurrentOwner);
            case "cleanups":
                return told(cleanups::get);
            case "info":
                return told(() -> listed(lock.getCurrentLockInfo()));
            case "close":
                return told(
                        () -> {
                            lock.close();
                            return true;
                        });
            default:
                throw new IllegalArgumentException(call);
        }
    }

    /** End its connection, whatever the lock says to that. */
    void discard() {
        try {
            lock.close();
        } catch (RuntimeException refused) {
            System.err.println(refused.getMessage());
        }
    }

    private static ArrayNode listed(LockInfo info) {
        return JSON.createArrayNode()
                .add(info.getOwner())
                .add(info.getMessage())
                .add(info.getTimeout())
                .add(info.getPriority())
                .add(info.getWaitingTimeout())
                .add(info.getCleanupTimeout())
                .add(info.getRequestorId())
                .add(info.getRequestorPriority())
                .add(info.getRequestorWaitingTimeout())
                .add(info.getRequestingTimestamp());
    }

    static ObjectNode told(Callable<?> call) {
        try {
            return JSON.createObjectNode().set("answer", JSON.valueToTree(call.call()));
        } catch (Exception error) {
            return thrown(error);
        }
    }

    static ObjectNode thrown(Exception error) {
        return JSON.createObjectNode()
                .put("error", error.getClass().getSimpleName())
                .put("text", String.valueOf(error.getMessage()));
    }
}
