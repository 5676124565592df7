"""The clauses of the specification, one module for each question."""
