"""Can this store carry a lock? The probe asks the store every clause, by raw requests. Where to find what:

- one probe from its begin to its end: `run` `opening` `session` `steps` `cleanup`
- how a call is sent: `dialect` `exchange` (network) `local` (folder, memory)
- what comes before a conditional request: `preparation`; a call and its HTTP request: `lockref.clouds`
- the questions, one module for each kind: `questions/`
- from answers to verdicts, the fingerprint and the exit code: `findings` `fingerprint` `gate`
"""
