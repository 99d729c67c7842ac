"""The store: its contract (base), its tables (schema), and the two databases it stands on."""
