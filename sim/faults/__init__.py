"""Faults as data: their vocabulary, the injector that strikes, generators of plans."""
