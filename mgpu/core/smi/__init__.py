"""What nvidia-smi prints, read into values. Nothing here may raise on what a node prints, or take doubt for free.

nvidia-smi mixes error lines into its rows, leaves values out in several spellings and names processes that are gone.
Rows are kept by their own index, UUID and bus id. A value that we only show may be missing; an index or UUID that
cannot be read makes that GPU faulty; processes that cannot be read make their GPU taken.
"""
