"""Locks of this family as they were shipped, mistakes included: what the corrected lease is measured against."""
