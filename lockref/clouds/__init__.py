"""The clouds: what is known of each object store, and how it is asked.

Each cloud has a folder with the same modules: its table of answers and its capabilities (`facts`), an answer read from
its bytes (`answers`), its SDK as an `ObjectStore` (`client`). The first two need the standard library alone, so the
probe and the wire read answers without an SDK. What all clouds share stands here:

- the meaning of an answer: `answers`, tables of statuses: `statuses`
- numbers and words as they stand on the wire: `grammar`
- one request with a deadline: `bounded_exchange` `http_session`
- Amazon's credentials and clients, which S3 and DynamoDB share: `aws`
"""
