"""The Spark pipeline: histories in; verdicts, latencies, fairness and tables out.

`analysis` is the whole of it. Spark's Python workers import this package for `daemon` and need nothing more.
"""
