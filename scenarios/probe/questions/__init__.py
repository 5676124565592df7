"""The questions to a store: one module for each kind."""
