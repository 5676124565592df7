"""Failures of simulated runs: shrunk and stored (`failure_store`), found and replayed (`stored_failures`), explained
(`explained`), and tried on a real server (`retry`)."""
