"""The two worlds that a scenario runs in: simulated and real."""
