"""The paper's figures and what goes beyond them. One file a family; `catalogue()` lists them all."""
