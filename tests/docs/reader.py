"""Follows a page as its readers do: installs, writes files, types commands and Python.

Only addresses differ from the page. Servers listen on free ports, and `postgresql://localhost/shop`
leads to a database of the tests. `ID` in a command is the id that was printed last.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Callable
from pathlib import Path

from tests.docs.environments import make_environment
from tests.docs.pages import Block, Command

PATIENCE = 60.0
"""Seconds for a command or a block."""
PATIENCE_AT_END = 20.0
"""Seconds for a server that was told to stop."""
PORTS = {
    "5000": ["FLASK_RUN_PORT"],
    "8000": ["UVICORN_PORT"],
    "8420": ["HEADWAY_DASHBOARD_PORT", "HEADWAY_DEV_PORT"],
    "9464": [],
}
"""The ports of servers on pages, and the variables that set another one."""
_NOT_INHERITED = ("PYTHON", "PYTEST", "HEADWAY", "VIRTUAL_ENV", "COV", "DJANGO", "PG")
_SERVER = re.compile(
    r"uvicorn |flask .*run\b|python serve\.py|python manage\.py runserver"
    r"|(HEADWAY_\S+ )*(headway|python manage\.py headway) (dev|dashboard|worker(?!.*--drain))\b"
)
_READY = re.compile(r"started: |http://[\w.]+:(?P<port>\d+)")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIFFERS = [
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}"), "TIME"),
    (_ID, "ID"),
    (re.compile(r"worker \S+:\d+:[0-9a-f]{8}"), "worker NAME"),
    (re.compile(r"\d+(\.\d+)? ?m?s\b"), "SECONDS"),
    (re.compile(r'File "/.*/'), 'File "FOLDER/'),
]


class Reader:
    def __init__(self, folder: Path, databases: dict[str, str], ports: dict[str, int]) -> None:
        self._folder = folder / "reader"
        self._folder.mkdir()
        self._databases = databases
        self._ports = ports
        self._packages: frozenset[str] = frozenset()
        self._environment: Path | None = None
        self._python: Python | None = None
        self._servers: dict[str, Process] = {}
        self._last_id = "ID"
        self._shell = folder / "shell"
        self._shell.write_text(f"cd {shlex.quote(str(self._folder))}\n")
        (folder / ".curlrc").write_text("silent\nshow-error\n")  # as on a terminal

    async def read(self, block: Block) -> None:
        if block.file is not None:
            self._write(block, block.file)
        elif block.kind in ("python", "check"):
            assert self._python is not None, "neither a file nor after `python -m asyncio`"
            await self._python.type(self._real(block.text))
        elif block.kind == "console":
            for command in block.commands():
                await self._type(command)

    async def leave(self) -> None:
        processes = [*self._servers.values(), *([self._python.process] if self._python else [])]
        stopped = (process.stop() for process in processes)
        for error in await asyncio.gather(*stopped, return_exceptions=True):
            if error is not None:
                raise error

    def _write(self, block: Block, name: str) -> None:
        file = self._current_folder() / name
        if block.is_end_of_file:
            assert file.exists(), f"there is no {name} to add to"
            file.write_text(file.read_text() + "\n" + self._real(block.text))
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._real(block.text))

    async def _type(self, command: Command) -> None:
        text = self._real(command.text)
        if text.startswith("pip install "):
            self._packages |= frozenset(shlex.split(text, comments=True)[2:])
            self._environment = self._shell.with_name(f"environment-{len(self._packages)}")
            await asyncio.to_thread(make_environment, self._environment, self._packages)
        elif "-m venv" in text:
            pass  # the environment of the page
        elif text == "python -m asyncio":
            if self._python is not None:
                await self._python.process.stop()
            self._python = Python(await self._start(text))
        elif _SERVER.match(text):
            await self._serve(text, command.output)
        else:
            process = await self._start(f"{text}\nstatus=$?\n{self._remember()}\nexit $status")
            status, output = await process.end(), process.written
            assert status == 0, f"$ {text}\n{output}"
            self._last_id = (_ID.findall(output) or [self._last_id])[-1]
            if command.output:
                assert self._matches(command.output, output), f"$ {text}\n{output}"

    async def _serve(self, text: str, output: str) -> None:
        kind = "worker" if "headway worker" in text else "web"
        if earlier := self._servers.pop(kind, None):
            await earlier.stop()
        self._servers[kind] = server = await self._start(text)
        shown = [self._pattern(line) for line in output.splitlines()] or [_READY]
        await server.wait_until(
            lambda written: all(line.search(self._plain(written)) for line in shown)
        )
        ready = _READY.search(server.written)
        if ready is not None and ready["port"]:
            await listens(int(ready["port"]))

    async def _start(self, script: str) -> Process:
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)
        }
        ports = {name: str(self._ports[port]) for port, names in PORTS.items() for name in names}
        path = "/usr/local/bin:/usr/bin:/bin"
        if self._environment is not None:
            path = f"{self._environment / 'bin'}:{path}"
        own = {"PATH": path, "CURL_HOME": str(self._folder.parent), "PYTHONUNBUFFERED": "1"}
        return await Process.start(
            f". {shlex.quote(str(self._shell))}\n{script}", {**inherited, **ports, **own}
        )

    def _remember(self) -> str:
        """Shell code that keeps the current folder and the exported variables."""
        exported = r"export -p | grep -vE '^declare -x (PATH|_|SHLVL|OLDPWD|PWD|PYTHONUNBUFFERED)='"
        return f"{{ {exported}; echo \"cd '$PWD'\"; }} > {shlex.quote(str(self._shell))}"

    def _current_folder(self) -> Path:
        return Path(shlex.split(self._shell.read_text().splitlines()[-1])[1])

    def _real(self, text: str) -> str:
        for shown, url in self._databases.items():
            scheme, address = url.split(":", 1)
            text = re.sub(shown, rf"{scheme}\g<driver>:{address}", text)
        for shown, real in self._ports.items():
            text = re.sub(
                rf"((?:localhost|127\.0\.0\.1)(?::|\", |\", port=)){shown}\b", rf"\g<1>{real}", text
            )
        return re.sub(r"\bID\b", self._last_id, text)

    def _plain(self, text: str) -> str:
        for shown, real in self._ports.items():
            text = text.replace(f":{real}", f":{shown}")
        for pattern, name in _DIFFERS:
            text = pattern.sub(name, text)
        return text

    def _pattern(self, shown: str) -> re.Pattern[str]:
        """Text as on the page; `…` stands for any text, on a line of its own for any lines."""
        lines = self._plain(shown).strip().splitlines(keepends=True)
        return re.compile(
            "".join(
                r"(?s:.*)" if line.strip() == "…" else re.escape(line).replace("…", ".*")
                for line in lines
            )
        )

    def _matches(self, shown: str, output: str) -> bool:
        return self._pattern(shown).fullmatch(self._plain(output).strip()) is not None


async def listens(port: int) -> None:
    """Wait until a server accepts connections there."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.02)


class Process:
    """A command in a terminal of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.written = ""
        self._process = process
        self._more = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, script: str, variables: dict[str, str]) -> Process:
        return cls(
            await asyncio.create_subprocess_exec(
                *("bash", "-c", script),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )
        )

    def type(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())

    async def wait_until(self, seen: Callable[[str], bool]) -> None:
        """Wait for output of this kind."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not seen(self.written):
                    assert not self._reading.done(), f"it ended:\n{self.written}"
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            raise AssertionError(f"not seen in:\n{self.written}") from None

    async def end(self) -> int:
        """Its exit code, when it has ended by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait([self._reading], timeout=PATIENCE)
        if not self._reading.done():
            await self.stop()
            raise AssertionError(f"it did not end:\n{self.written}")
        return await self._process.wait()

    async def stop(self) -> None:
        """As with Ctrl-C, or Ctrl-D in Python."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        done, _ = await asyncio.wait([self._reading], timeout=PATIENCE_AT_END)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading
        assert done, f"it did not stop:\n{self.written}"

    async def _read(self) -> None:
        assert self._process.stdout is not None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while chunk := await self._process.stdout.read(65_536):
            self.written += decoder.decode(chunk)
            self._more.set()
        self._more.set()


class Python:
    """`python -m asyncio`, where code may have `await` outside of functions."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._blocks = 0

    async def type(self, text: str) -> None:
        """Type a block, line by line, and wait until it has run. It must not raise."""
        self._blocks += 1
        before = len(self.process.written)
        error = "repr(getattr(__import__('sys'), 'last_value', None))"
        self.process.type(f"{text}\n\nprint('<end of block', {self._blocks}, {error}, '>')\n")
        end = re.compile(rf"<end of block {self._blocks} (.*) >\n")
        await self.process.wait_until(lambda written: bool(end.search(written)))
        match = end.search(self.process.written)
        assert match is not None
        assert match[1] == "None", f"{text}\n{self.process.written[before:]}"
