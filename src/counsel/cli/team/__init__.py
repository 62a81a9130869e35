"""The commands of a team: its people, their sign-in, its database and workers."""
