"""The gate: a lock through the whole catalogue. Where to find what:

- the job itself, from the abilities of the lock to the last screen: `gating`
- what may be chosen: `options`, and what that makes of the verdict: `acceptance`
- the parts of the account: `account`, the page: `report`, other files and what a CI system reads: `outputs`
- an end before all was run: `early_end`
"""
