"""The coordination port, ZooKeeper's requests, and who answers them. Where to find what:

- the port: `port`, and `znodes`, the tree of znodes as a state machine
- a client's session, and until when it is safe: `session`
- ZooKeeper itself, by kazoo: `zookeeper` `place` `diagnosis`
- znodes as a store of conditional writes, and a lease on them: `znode_store` `lease`
"""
