"""mgpu: one queue for the GPU boxes that you can merely SSH into."""

__version__ = "0.1.0"
