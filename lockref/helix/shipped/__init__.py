"""Helix' own lock class as it was released, mistakes included: what `znode-lease` is measured against."""
