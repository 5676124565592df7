"""Locks as people wrote them against interface version 1, when it was documented first. They stay as they are."""
