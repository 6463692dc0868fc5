"""The gallery's jobs as jobs that want to be seen: `publish`, and a tap in front of each watermark.

`python -m tests.gallery.published_jobs DIRECTORY [NAME ...]`, as `jobs.py`.
"""

from wmtop.engine import publish, tap

from .jobs import main

if __name__ == "__main__":
    main(publish, lambda df, time: tap(df, time, channel="key"))
