"""Can this store carry a lock? The probe asks the store every clause, by raw requests. Where to find what:

- one probe from its begin to its end: `run` `opening` `session` `steps` `cleanup`
- a request, and how it is sent: `calls` `exchange` (network) `local` (folder, memory)
- a request in the form of each cloud: `dialects/`
- the questions, one module for each kind: `questions/`
- from answers to verdicts, the fingerprint and the exit code: `findings` `fingerprint` `gate`
"""
