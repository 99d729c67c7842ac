"""The helpers beside the tests of the aggregator and of js/ are used here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "aggregator"))
sys.path.append(str(Path(__file__).parents[1] / "js"))
