"""The clauses checked by other definitions of the same thing."""
