"""Where grants are read from: one source for each way in which a lock tells of them."""
