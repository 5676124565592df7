"""The parts of every lease, independent of the record of any one store. Where to find what:

- the words that all parts share: `values`
- decisions, as functions of values: `decisions` `lag`, as one value: `rules`, when a waiter looks again: `waiting`
  `adaptive_waiting`, what a record tells those who wait: `turn_note`, how long requests and grants last: `pace`
- one record under compare-and-set: `cell`, the version that is remembered: `shortcut`, its tokens: `fence` `unfenced`
- one grant, and who renews it: `tenure` `heartbeat`
- the release, and what removes orphaned writes: `cleanup` `background`
- one acquiring call: `acquisition`, of a client that comes back: `returning`
- the parts in order: `client`, put together: `assembly`
- the tasks of a process at one lock: `gate` `gated`, what an application calls: `lease_lock`
- what people and listeners are told: `messages` `notices`
"""
