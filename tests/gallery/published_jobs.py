"""The gallery's jobs as jobs that want to be seen: `publish`, and a tap in front of each watermark.

`python published_jobs.py DIRECTORY [NAME ...]`, as `jobs.py`.
"""

import runpy
from pathlib import Path

from wmtop.engine import publish, tap

if __name__ == "__main__":
    jobs = runpy.run_path(str(Path(__file__).with_name("jobs.py")), run_name="gallery")
    jobs["main"](publish, lambda df, time: tap(df, time, channel="key"))
