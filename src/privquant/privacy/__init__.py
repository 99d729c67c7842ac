"""What is promised: the coin, exact accounting, poisoning, audit. Import the modules by name.

Nothing is imported here: `privquant.privacy.coin` runs on the device, without numpy.
"""
