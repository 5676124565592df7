"""The jobs behind the commands: from a new run folder to its verdict, its page and its exit code.

A job puts the rooms together: a world of `scenarios` makes a history, `reports` judges and shows it. It knows nothing
of command lines; `lockref.cli` reads those, calls one job, and nobody else calls a job.
"""
