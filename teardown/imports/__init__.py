"""Other people's results: read as they were written, judged and counted by this kit's words.

One file a source. Every reader returns `Found`: requests, the load that was asked for, what the
tool itself stated, and what the file cannot tell. `keep` makes runs of them.
"""
