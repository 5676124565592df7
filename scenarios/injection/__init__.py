"""A fault plan carried out on real servers: the injector of the simulator, on real time, connections and processes."""
