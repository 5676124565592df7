"""How each cloud writes down the requests of the probe, and what its answers mean."""
