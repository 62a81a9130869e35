"""Several servers that share one PostgreSQL database: who lives, who works on which job. Loaded in team mode only."""
