"""Payloads that the database cannot read: a codec that encrypts the JSON of another codec. The keys
can be changed while jobs wait. Needs cryptography. Run it: `python examples/encrypted.py`
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from headway import Headway
from headway.errors import InvalidPayload
from headway.jobs.codec import JsonCodec
from headway.ports.codec import Codec, Coder

FOLDER = Path(tempfile.mkdtemp(prefix="headway-encrypted-"))


class EncryptingCodec:
    """The first key encrypts, all of them decrypt: put a new one first, and drop the old one when
    the jobs that were started before are done."""

    def __init__(self, *keys: bytes, inner: Codec | None = None) -> None:
        self._fernet = MultiFernet([Fernet(key) for key in keys])
        self._inner = inner or JsonCodec()

    def coder(self, type_: Any, *, what: str) -> Coder:
        return EncryptingCoder(self._inner.coder(type_, what=what), self._fernet, what)


class EncryptingCoder:
    def __init__(self, inner: Coder, fernet: MultiFernet, what: str) -> None:
        self._inner = inner
        self._fernet = fernet
        self._what = what

    def encode(self, value: Any) -> str:
        token = self._fernet.encrypt(self._inner.encode(value).encode())
        return msgspec.json.encode(token.decode()).decode()  # still JSON: a string

    def decode(self, text: str) -> Any:
        try:
            token = msgspec.json.decode(text, type=str)
            return self._inner.decode(self._fernet.decrypt(token).decode())
        except (InvalidToken, msgspec.DecodeError):
            raise InvalidPayload(f"{self._what} was not encrypted with any of our keys") from None


@dataclass
class Patient:
    name: str
    diagnosis: str


def make(*keys: bytes) -> tuple[Headway, Any]:
    app = Headway(f"sqlite:///{FOLDER}/clinic.db", codec=EncryptingCodec(*keys))

    @app.job
    async def write_to(patient: Patient) -> str:
        return f"Dear {patient.name}, it is only {patient.diagnosis}."

    return app, write_to


async def main() -> None:
    old, new = Fernet.generate_key(), Fernet.generate_key()
    app, write_to = make(old)
    async with app:
        letter = await app.start(write_to.request(Patient("Ada", "a cold")))
        with closing(sqlite3.connect(FOLDER / "clinic.db")) as connection:
            (stored,) = connection.execute("select input from headway_job").fetchone()
        print("stored is a token:", stored.startswith('"gAAAAA'), "- with a name:", "Ada" in stored)
    app, write_to = make(new, old)
    async with app:
        print("a worker with both keys takes it")
        await app.worker().run(drain=True)
        print(await app.sequence(letter, write_to).result(timeout=5))
    app, write_to = make(new)
    async with app:
        try:
            await app.sequence(letter, write_to).result(timeout=5)
        except InvalidPayload as error:
            print(error)
        else:
            print("the result was encrypted with the new key and is read with it alone")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
