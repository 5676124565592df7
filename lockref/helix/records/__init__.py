"""What stands in ZooKeeper: Helix' records, their paths, its messages, and what a state says of a lock."""
