"""What `mgpu doctor` knows: the walk that finds out why a node, or the master, does not do what it should.

The nodes are asked by the command itself, as the user who types it, and not by the master: what only one of the two can
do is the most common riddle of all. Nothing is changed anywhere, and everything is bounded in time.
"""
