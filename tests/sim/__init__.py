"""The real master over virtual nodes, a virtual clock, and every kind of trouble: see `simulation`."""
