"""`make mutants`: a fixed sample of small changes to the source; each must make one of its package's tests fail."""
