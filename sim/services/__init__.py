"""Modelled servers: object store and protected resource, behind one network."""
