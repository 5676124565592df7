"""Faults as data: one class per kind in a module per family, plans of them, the injector that strikes, swarms."""
