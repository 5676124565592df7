"""A program around the released bucket-locker: it changes one object, under its lock.

Usage: bucket_locker_worker.py CYCLES HOLD_SECONDS
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bucket_locker import Locker

bucket, me = os.environ["LOCKREF_BUCKET"], os.environ["LOCKREF_CLIENT"]
cycles, hold_s = int(sys.argv[1]), float(sys.argv[2])


async def work(folder: str) -> None:
    locker = Locker(bucket, Path(folder))
    for number in range(cycles):
        try:
            async with locker.owned_local_copy("state/x", allow_missing=True):
                await asyncio.sleep(hold_s)
                locker.local_path("state/x").write_text(f"{me} {number}")
        except TimeoutError:
            # Ten seconds without the lock; bucket-locker lets nobody choose another time.
            continue


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(work(folder))
