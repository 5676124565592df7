import java.util.Queue;
import org.apache.helix.NotificationContext;
import org.apache.helix.model.Message;
import org.apache.helix.participant.statemachine.StateModel;
import org.apache.helix.participant.statemachine.StateModelFactory;

/** What a participant does with one lock: it notes each callback with its time. Helix finds the methods by their names. */
public class LockModel extends StateModel {
    private final Queue<Heard> heard;
    private final String instance;

    LockModel(Queue<Heard> heard, String instance) {
        this.heard = heard;
        this.instance = instance;
    }

    /** One callback. `ns` is of the monotonic clock, which every process of a machine reads alike. */
    record Heard(long ns, String instance, String lock, String source, String target) {}

    void note(Message message) {
        heard.add(
                new Heard(
                        System.nanoTime(),
                        instance,
                        message.getPartitionName(),
                        message.getFromState(),
                        message.getToState()));
    }

    public void onBecomeLOCKEDFromRELEASED(Message message, NotificationContext context) {
        note(message);
    }

    public void onBecomeRELEASEDFromLOCKED(Message message, NotificationContext context) {
        note(message);
    }

    /** The recipe has the two methods above and no other. This one has a method for every transition of its model. */
    public static final class Whole extends LockModel {
        Whole(Queue<Heard> heard, String instance) {
            super(heard, instance);
        }

        public void onBecomeDROPPEDFromLOCKED(Message message, NotificationContext context) {
            note(message);
        }

        public void onBecomeDROPPEDFromRELEASED(Message message, NotificationContext context) {
            note(message);
        }

        public void onBecomeRELEASEDFromDROPPED(Message message, NotificationContext context) {
            note(message);
        }
    }

    /** That of the older recipe, distributed-lock-manager: a lock is held while its partition is ONLINE. */
    public static final class Online extends LockModel {
        Online(Queue<Heard> heard, String instance) {
            super(heard, instance);
        }

        public void onBecomeONLINEFromOFFLINE(Message message, NotificationContext context) {
            note(message);
        }

        public void onBecomeOFFLINEFromONLINE(Message message, NotificationContext context) {
            note(message);
        }

        public void onBecomeDROPPEDFromOFFLINE(Message message, NotificationContext context) {
            note(message);
        }
    }

    /** One object per lock, as in the recipe. */
    static final class Factory extends StateModelFactory<LockModel> {
        private final Queue<Heard> heard;
        private final String instance;
        private final boolean isWhole;
        private final boolean isOnline;

        Factory(Queue<Heard> heard, String instance, String model, boolean isWhole) {
            this.heard = heard;
            this.instance = instance;
            this.isWhole = isWhole;
            this.isOnline = model.equals("OnlineOffline");
        }

        @Override
        public LockModel createNewStateModel(String resource, String lock) {
            if (isOnline) {
                return new Online(heard, instance);
            }
            return isWhole ? new Whole(heard, instance) : new LockModel(heard, instance);
        }
    }
}
