"""Locks that a controller assigns, as in Apache Helix. Where to find what:

- the cluster and its file: `cluster` `cluster_file` `declared_model` `file_values` `configured` `layout` `state_model`
- the records: `zn_record` `messages` `current_states` `views`
- decisions, as functions of values: `pipeline` `rebalancers` `strange_rebalancer` `measures`
- the controller: `controller` `reading` `looking` `asking` `batch` `orders`, and its book: `grants` `book`
- the participant: `participant` `arrival` `transitions` `holdings` `patience`, and what it serves: `application`
- one lock of a cluster, for the laboratory: `lock` `membership`
- Helix' own lock class as it was released: `shipped/`
"""
