"""The evaluation: which store to take for a lock. Where to find what:

- the job itself, from the stores to the advice: `evaluating`
- what each store is asked, in which order: `steps`
"""
