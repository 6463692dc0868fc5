"""Foreign jobs: plain PySpark queries that import nothing of wmtop, each with the truth about itself.

`python -m tests.gallery.jobs DIRECTORY [NAME ...]` runs them one after the other in one application with an event log
(in `DIRECTORY/log`), each on its own files (`DIRECTORY/NAME`), one file a batch, until everything is read. For each it
prints one line of JSON: its name and its truth. All times are epoch milliseconds.

The truth is known from the input and from what Spark reported to the job itself: `watermark_ms` is the one that the
next batch would use, `open` the windows (start, end, records) or null where the job has none, `dropped` the rows that
Spark counted as late.
"""

from . import joins_jobs, runs_jobs, state_jobs, windows_jobs
from .job import JOBS, main

__all__ = ["JOBS", "joins_jobs", "main", "runs_jobs", "state_jobs", "windows_jobs"]

if __name__ == "__main__":
    main()
