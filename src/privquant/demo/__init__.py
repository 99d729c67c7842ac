"""The real thing in a minute: a server, devices and the estimate beside the truth, in both trust models."""
