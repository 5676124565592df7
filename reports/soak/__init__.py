"""The resources of a soak: does the lock use more and more of something? Where to find what:

- the cycles of a history, counted while its pieces pass: `cycles`
- samples and cycles put together, one series for each resource: `series`
- the slope of a series with its interval: `slopes`
- which growth is a leak, and which is not: `growth`
- all resources of a soak, and its verdict: `verdict`
"""
