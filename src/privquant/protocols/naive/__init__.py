"""DpNaiveNBS: binary search by batches, local and shuffled."""
