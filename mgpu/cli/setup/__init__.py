"""What `mgpu init` is made of: which hosts, the text of the files, their place, a key, a first look."""
