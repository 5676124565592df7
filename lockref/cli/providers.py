"""`lockref providers`: the locks that can be put to the test."""
