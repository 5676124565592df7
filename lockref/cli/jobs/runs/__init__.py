"""The runs that a folder keeps. Where to find what:

- runs listed, shown, opened and packed: `kept`
- runs beyond the user's limits: which ones, and their removal: `surplus`, told to the user: `pruning`
"""
