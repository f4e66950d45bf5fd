"""mgpu: one queue for the GPU boxes that you can merely SSH into."""

# What client and master say to each other: another number means that they do not understand each other.
WIRE = 1
__version__ = "0.1.0"
