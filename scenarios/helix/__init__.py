"""The program of Helix' recipe on a real ZooKeeper, with its terminal view. Where to find what:

- the program, and how it is shown: `program` `progress` `live_table`
- the cost of each rebalancer, counted and drawn: `rebalancing` `pictures`
- many sessions that end at one instant: `storm` `controller_process` `participants_process`
- rules that fail, for scenarios: `rules`
"""
