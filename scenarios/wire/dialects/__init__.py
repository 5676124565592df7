"""How each cloud speaks on the wire: HTTP messages, and what they mean to an object store."""
