"""The content of ZooKeeper: Helix' records, their paths, Helix' messages, and the lock that a state describes."""
