"""A gate over the catalogue: what a lock can do, what is therefore asked of it, and the causes of what broke."""
