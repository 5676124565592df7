package org.apache.helix.userdefinedrebalancer;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.helix.HelixManager;
import org.apache.helix.controller.dataproviders.ResourceControllerDataProvider;
import org.apache.helix.controller.rebalancer.Rebalancer;
import org.apache.helix.controller.rebalancer.internal.MappingCalculator;
import org.apache.helix.controller.stages.CurrentStateOutput;
import org.apache.helix.model.IdealState;
import org.apache.helix.model.Partition;
import org.apache.helix.model.Resource;
import org.apache.helix.model.ResourceAssignment;
import org.apache.helix.model.StateModelDefinition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The recipe's rule, under the recipe's class name: the lock at index i of the sorted names goes to live instances i mod n
 * and following, as many as the count of the first state says.
 *
 * <p>The recipe is written for Helix 0.7 and takes the live instances in the order of a map. Here the order is told.
 */
public final class LockManagerRebalancer
        implements Rebalancer<ResourceControllerDataProvider>, MappingCalculator<ResourceControllerDataProvider> {
    private static final Logger LOG = LoggerFactory.getLogger(LockManagerRebalancer.class);

    /** True: the live instances from the last name to the first, as the recipe's README has them. */
    public static volatile boolean isDescending;

    /** True: the rule fails whenever it is asked. */
    public static volatile boolean isFailing;

    @Override
    public void init(HelixManager manager) {}

    @Override
    public IdealState computeNewIdealState(
            String resource, IdealState current, CurrentStateOutput states, ResourceControllerDataProvider cluster) {
        return current;
    }

    @Override
    public ResourceAssignment computeBestPossiblePartitionState(
            ResourceControllerDataProvider cluster, IdealState ideal, Resource resource, CurrentStateOutput states) {
        if (isFailing) {
            throw new IllegalStateException("the rule fails, as it was told to");
        }
        List<String> live = new ArrayList<>(cluster.getLiveInstances().keySet());
        Collections.sort(live, isDescending ? Collections.reverseOrder() : null);
        List<String> locks = new ArrayList<>(ideal.getPartitionSet());
        Collections.sort(locks);
        ResourceAssignment assignment = new ResourceAssignment(resource.getResourceName());
        StateModelDefinition model = cluster.getStateModelDef(ideal.getStateModelDefRef());
        String top = model.getStatesPriorityList().get(0);
        int holders;
        try {
            holders = Integer.parseInt(model.getNumInstancesPerState(top));
        } catch (NumberFormatException error) {
            LOG.error("Invalid state model definition. The lock state does not have a valid count");
            return assignment;
        }
        for (int index = 0; index < locks.size(); index++) {
            Map<String, String> replicas = new HashMap<>();
            // The recipe divides by zero where nobody lives (Z3).
            for (int place = index; place < index + holders && !live.isEmpty(); place++) {
                replicas.put(live.get(place % live.size()), top);
            }
            assignment.addReplicaMap(new Partition(locks.get(index)), replicas);
        }
        return assignment;
    }
}
