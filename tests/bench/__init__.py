"""`make bench`: ratios measured in one run. Not collected by pytest."""
