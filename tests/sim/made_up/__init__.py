"""A service, a fault and a lock that the product does not know, each registered by its own module (`command`)."""
