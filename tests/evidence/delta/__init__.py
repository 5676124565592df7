"""The originals of Delta's locks on S3, as released, each in a process and an environment of its own.

`python -m tests.evidence delta` lists what can be seen on them; docs/delta-originals.md tells what was seen.
"""
