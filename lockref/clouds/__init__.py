"""Object stores of S3, Google Cloud Storage and Azure: one client each, and one table of statuses."""
