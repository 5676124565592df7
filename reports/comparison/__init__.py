"""Two or more runs or stores side by side, and what cannot be told apart."""
