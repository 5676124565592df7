"""The clouds: what is known of each store, and how it is asked.

Each cloud has a folder with the same modules. The first four need the standard library alone, so the probe and the wire
ask and listen without an SDK.

- `facts`: status and code to outcome, versions, statuses of its own server, bucket rules, forms of a URI
- `requests`: written from a call, and read from a wire
- `answers`: read from their bytes, and written
- `cloud`: all of it as one `Cloud`, which `uri.CLOUDS` finds by a scheme
- `signing`: credentials for a request; `client`: the SDK as an `ObjectStore`

What all clouds share stands here:

- a request and an answer without a cloud's words: `calls`, as they passed on a wire: `traffic`
- the meaning of an answer: `answers`, tables of statuses: `statuses`, an answer as bytes: `http_reply`
- XML as it stands on the wire: `xml_body`; numbers, words and JSON: `lockref.grammar`
- one request with a deadline: `bounded_exchange` `http_session`
- Amazon's credentials and clients, which S3 and DynamoDB share: `aws`
- from a URI to a store: `cloud` `uri`, to a table: `tables`; stores that are no cloud's: `without_cloud`
- may a lock open this store: `admission`
"""
