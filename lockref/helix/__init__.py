"""Locks that a controller assigns, as in Apache Helix. Where to find what:

- what stands in ZooKeeper: `records/`
- the cluster file, and the cluster that it declares: `cluster/`, its state models: `state_model`
- decisions, as functions of values: `pipeline` `rebalancers` `strange_rebalancer` `grants` `orders` `measures`
- which resources a controller drives, and which instances hang: `served` `zombies`
- a controller at work: `controller/`
- a participant at work: `participant/`
- an operator's commands: `operations/`
- one lock of a cluster, for the laboratory: `lock`
- Helix' own lock class as it was released: `shipped/`
"""
