"""Amazon S3, and every server that speaks its protocol."""
