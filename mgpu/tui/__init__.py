"""`mgpu top`: the queue and its nodes on one screen. Opened by its command alone, since Textual takes long to load.

How the folder reads:

- `app` has the themes, `main_screen` what stands on the screen and who hears of what, `layout` where that is.
- `source` asks the master, `polling` again and again, `freshness` knows how old an answer is; in `threads` they wait.
- `nodes_pane` and `queue_pane` are lists (`rows`, with a title and a line to search in: `pane`); how a line looks is
  pure text: `node_rows`, `queue_rows`, of `cells`, `columns` and `bars`, in the colours of `toned`. `wanted` is which
  part of the queue is shown.
- `details` holds `job_pane` and `node_pane`, both `followed` and made of `facts`; a job's log is a `log_view`, alone on
  a `log_screen`.
- `keys` is the table of which bindings, `key_line`, `help` and `palette` are made; what they set off at the master are
  `wishes`, after `dialogs`.
- `web` serves all of it to a browser.
"""
