"""Several servers that share one PostgreSQL database: which are alive, and who works on which job. Loaded in team mode only."""
