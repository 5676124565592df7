"""`lockref campaign`: very many seeds, on processes or on Spark, kept chunk by chunk."""
