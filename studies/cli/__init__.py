"""The commands of `python -m studies`, one a file."""
