"""Any program, unmodified: its requests are recorded on the wire, disturbed by plan, and judged. Where to find what:

- one run: `settings` `run` `live_run`, the program's processes: `processes/`
- between a program and its server: `endpoints` `tap`
- HTTP read from the bytes that pass, and its meaning to each cloud's store: `reading/`; the servers behind: `upstream`
- from requests to a history: `recorder`, the lock records in it: `decoders`, and what a lock protects: `protection`
- the plan and its strikes: `plan` `strikes`, and whether a program obeys the clock that the plan gives it: `dates`
"""
