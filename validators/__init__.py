"""Token-level checks: one file, one check. How to write one: docs/validators.md."""
