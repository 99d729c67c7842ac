"""`python -m privquant.cli` is the same as `privquant`."""

from privquant.cli import main

main()
