"""A fault plan on real servers: the simulator's injector, on real time, connections and processes. Where to find what:

- which faults are possible: `feasible`; which never struck: `unstruck`; the plan at work: `at_work` `carriage`
  `real_time`
- a run of our own clients: `session`, and the client's side of it: `announcing` `routes`
- HTTP between client and server: `lane` `observer` `http_messages` `answers` `certificates` `faultproxy`
"""
