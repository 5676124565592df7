"""The sources of grants: one for each way in which a lock's history tells of its grants."""
