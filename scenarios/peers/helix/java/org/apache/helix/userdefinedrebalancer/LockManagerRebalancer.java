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

/**
 * The recipe's rule, under the recipe's class name: the lock at index i of the sorted names goes to live instance i mod n.
 *
 * <p>The recipe is written for Helix 0.7 and takes the live instances in the order of a map. Here the order is told.
 */
public final class LockManagerRebalancer
        implements Rebalancer<ResourceControllerDataProvider>, MappingCalculator<ResourceControllerDataProvider> {
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
        String top = cluster.getStateModelDef(ideal.getStateModelDefRef()).getStatesPriorityList().get(0);
        ResourceAssignment assignment = new ResourceAssignment(resource.getResourceName());
        for (int index = 0; index < locks.size(); index++) {
            Map<String, String> holder = new HashMap<>();
            if (!live.isEmpty()) {
                holder.put(live.get(index % live.size()), top);
            }
            assignment.addReplicaMap(new Partition(locks.get(index)), holder);
        }
        return assignment;
    }
}
