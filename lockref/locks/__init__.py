"""What every lease is made of, without a word about any one store's record."""
