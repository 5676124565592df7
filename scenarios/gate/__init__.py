"""The gate over the catalogue: which scenarios it takes (`selection`), which failures are accepted (`known`)."""
