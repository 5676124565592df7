"""The cluster file, the cluster that it declares, and that cluster's tree in ZooKeeper."""
