"""Machines and the network between them."""
