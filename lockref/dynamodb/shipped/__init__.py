"""Locks of this family as they were shipped, mistakes included: what the corrected lease is measured against.

One of them was never shipped: dynamodb_lock 0.6.1 with the fix that was proposed for it, which has its own mistakes.
"""
