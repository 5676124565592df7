"""Acme Vaults, made up: its own URIs, headers for conditions, statuses, errors in JSON, versions as numbers."""
