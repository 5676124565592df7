"""A soak from its settings to its verdict. Where to find what:

- the command's steps: `soaking`
- the settings in `run.json`, by which a soak that was cut short goes on: `settings`
- the histories and samples of all stretches, judged: `judging`
"""
