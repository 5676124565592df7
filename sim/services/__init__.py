"""Modelled services: object store, table and protected resource, behind one network."""
