"""What a device can call: manifests, claims, queries, reports, and who is let in when."""
