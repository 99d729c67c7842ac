"""How well it works: users, error, epsilon and confidence, from measured calibration and from theory."""
