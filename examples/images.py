"""An image pipeline: drawing and shrinking burn CPU, so they run in processes of their own, and a
process that hangs is killed. Run it: `python examples/images.py`
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from headway import Continuation, Headway, Job
from headway.errors import ResultFailed

# Children import this module too, and must find the same folder.
FOLDER = Path(os.environ.get("IMAGES_FOLDER") or tempfile.mkdtemp(prefix="headway-images-"))
os.environ["IMAGES_FOLDER"] = str(FOLDER)
app = Headway(f"sqlite:///{FOLDER}/images.db")


@app.job(isolate=True, timeout=20, max_attempts=1)
def draw(job: Job, name: str, size: int) -> Continuation[str]:
    """A fractal, as a grey image; its file is passed on, not its content."""
    rows = [bytes(_shade(x, y, size) for x in range(size)) for y in range(size)]
    _write(FOLDER / f"{name}.pgm", rows)
    return job.continue_with(shrink.request(name, 4))


@app.job(entry=False, isolate=True, timeout=20)
def shrink(name: str, factor: int) -> str:
    rows = _read(FOLDER / f"{name}.pgm")
    small = [
        bytes(sum(row[x : x + factor]) // factor for x in range(0, len(row), factor))
        for row in rows[::factor]
    ]
    _write(FOLDER / f"{name}-small.pgm", small)
    return f"{name}-small.pgm: {len(small[0])} x {len(small)}, {sum(map(sum, small)) % 1000}"


@app.job(isolate=True, timeout=0.5, max_attempts=1)
def hang() -> None:
    """What a broken image does to a decoder; no thread could be stopped in this."""
    while True:
        pass


def _shade(x: int, y: int, size: int) -> int:
    point, z = complex(3 * x / size - 2, 3 * y / size - 1.5), 0j
    for step in range(32):
        if abs(z) > 2:
            return 255 - 8 * step
        z = z * z + point
    return 0


def _write(path: Path, rows: list[bytes]) -> None:
    path.write_bytes(b"P5 %d %d 255\n" % (len(rows[0]), len(rows)) + b"".join(rows))


def _read(path: Path) -> list[bytes]:
    header, _, pixels = path.read_bytes().partition(b"\n")
    width = int(header.split()[1])
    return [pixels[start : start + width] for start in range(0, len(pixels), width)]


async def main() -> None:
    async with app:
        worker = app.worker(concurrency=2)
        await worker.start()
        pictures = await app.start_many([draw.request(name, 64) for name in ("one", "two")])
        for picture in pictures:
            print(await picture.result(timeout=60))
        broken = await app.start(hang.request())
        try:
            await broken.result(timeout=60)
        except ResultFailed as failed:
            print(f"hang: {failed.failure.message}")
        print(f"and the worker goes on: {len(worker.running)} jobs run")
        await worker.stop()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
