"""The lease of Delta Lake's lock table, corrected: its record, its rules of time, and what a holder's row tells.

Nothing here knows where the record is kept: `lockref/dynamodb` keeps it in a table's row, `lockref/coordination` in a
znode.
"""
