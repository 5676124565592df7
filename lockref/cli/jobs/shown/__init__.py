"""The output of every job. Where to find what:

- lines and one refreshed line, and never a hostile byte: `console`
- many like steps, and how long the rest takes: `progress`
- the end of a job that judges: its verdicts, its document, its exit code: `results`
"""
