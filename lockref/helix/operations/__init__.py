"""An operator's commands on a cluster. Where to find what:

- the operator's session, and how a plan is carried out: `operator`
- what is there: `status` (values), `reading` (how they are read)
- what is changed: `enabling` `adding` `dropping`
"""
