"""Failures of simulated runs: `stored`, shrunk and replayed by an id, and `retried` on a real server."""
