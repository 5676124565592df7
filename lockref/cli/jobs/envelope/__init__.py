"""The envelope: the disturbances under which a lock breaks, and where it promises not to. Where to find what:

- the job itself, from the survey to the verdict: `surveying`
- the picture, the tables and the page: `picture`
"""
