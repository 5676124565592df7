"""Searches for plans under which a lock breaks: `lockref sim --explore faults` and `lockref fuzz`.

`placing` puts faults at each request, `fuzzing` changes plans that showed something new, and `ending` ends both: the
failures stored, the account written, one verdict.
"""
