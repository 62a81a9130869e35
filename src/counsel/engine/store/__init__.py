"""Everything that is kept, behind one seam: SQL lives in this package and nowhere else."""
