"""Schedulers: who decides which node runs what, behind one seam."""
