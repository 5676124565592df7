"""Object stores, seen as conditional writes by key. Where to find what:

- the port and its outcomes: `port` `statuses` `keys`, and the port over a channel: `client`
- from a URI to a store: `uri` `buckets` `endpoints` `azure_account`
- one module for each kind of store: `s3` `gcs` `azure` `localfs` `memory`
- how a request is sent, once and within its time: `aws` `azure_client` `http_session` `wire`
- may a lock open this store: `admission`, and the questions to the store: `probe/`
"""
