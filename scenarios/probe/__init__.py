"""Can this store carry a lock? The probe asks the store every clause, by raw requests. Where to find what:

- one probe from its begin to its end: `run` `opening` `session` `steps` `cleanup`
- a request, and how it is sent: `calls` `exchange` (network) `local` (folder, memory), in each cloud's form: `dialects`
- the questions: `sequential` `modes` `races` `spread` `counter` `lost_replies` `reading` `pace` `versioned` `leases`
  `stopped_node`
- from answers to verdicts, the fingerprint and the exit code: `findings` `fingerprint` `gate`
"""
