"""`mgpu top`: the queue and its nodes on one screen. Opened by its command alone, since Textual takes long to load."""
