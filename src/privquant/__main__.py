"""`python -m privquant` is the same as `privquant`."""

from privquant.cli import main

if __name__ == "__main__":
    main()
