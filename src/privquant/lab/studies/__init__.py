"""Studies made of cells: the paper's figures, the recorded runs, the search's own tables, the calibration."""
