"""Object stores, seen as conditional writes by key. Where to find what:

- the port: `port` `keys`, what a caller passes to it: `arguments`, and the port over a channel: `client`
- the address of a store and its parts: `address` `buckets` `endpoints`; from a URI to a store: `lockref.clouds.uri`
- the stores of this machine: `localfs` `memory`; those of the clouds have a room of their own, `lockref.clouds`
- the questions to a store, before a lock opens it: `probe/`; who asks them: `lockref.clouds.admission`
"""
