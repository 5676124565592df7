"""Amazon DynamoDB as a store of objects. Its locks have a room of their own, `lockref.dynamodb`."""
