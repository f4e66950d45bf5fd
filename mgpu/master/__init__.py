"""The loop that alone acts on nodes: observe, settle, plan, commit, realise, collect."""
