"""The jobs behind the commands: from a new run folder to its verdict, its page and its exit code.

A job puts the rooms together: a world of scenarios makes a history, the reports judge and show it. It knows nothing
of command lines; the commands read those, call one job, and nobody else calls a job. Where to find what:

- what every job shows: lines and progress, verdicts, documents and exit codes: `shown/`
- runs that are made: in virtual time: `simulation`, their schedules: `exploration`, on real servers: `contention`, any
  program on the wire: `watching`, Helix' locks on a real ZooKeeper: `cluster`, a bit of each: `demonstration`
- runs that are read: judged once more: `checking`, side by side: `comparing`, on a page: `reporting`; what a table's
  own audit tells: `auditing`
- the runs that a folder keeps: `runs/`; a run that goes on, followed from beside: `watch/`
- a stored failure: run again: `replaying`, told from its cause to its effect: `explaining`
- a lock over very many seeds, on any executor: `campaign/`; at work for long on a real server: `soak/`
- plans under which a lock breaks, looked for: `search/`
- a lock through the whole catalogue: `gate/`, over a plane of disturbances: `envelope/`
- a store: asked what it keeps: `probing`, or whether to take it for a lock: `evaluation/`
- the scenarios there are: `cataloguing`
- the figures of the Delta and Helix pages: `planning` `drawing`
"""
