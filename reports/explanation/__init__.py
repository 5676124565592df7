"""Why a run broke its clause: the cause in words, the events in order, and a diagram of requests and leases."""
