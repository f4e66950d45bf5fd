"""What mgpu costs: `scripts/bench`. Every figure is taken beside what it is compared with, in turn, in the same run."""
