"""Several servers on one PostgreSQL database: which are alive, and which runs which job. Loaded in team mode only."""
