"""The requests of a lock, learned by running it, and the list prices of requests: for an evaluation of stores."""
