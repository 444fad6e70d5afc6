"""Servers: processes with a lifetime, and the addresses at which they answer. Start at `base`."""
