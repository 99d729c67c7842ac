"""Alembic migrations of the store, run by every start and every operator command."""
