"""The processes of a real run: clients, their companions, and what starts, stops and follows them."""
