"""An expense that a person approves over HTTP. The job that waits for the approval has no handler:
no worker runs it, the web request completes it. Run it: `python examples/approval.py`
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from headway import Continuation, Headway, Job, declare
from headway.errors import JobNotFound, WrongState

FOLDER = Path(tempfile.mkdtemp(prefix="headway-approval-"))
app = Headway(f"sqlite:///{FOLDER}/expenses.db")

approval = declare("approval", input=str, output=str)
app.register(approval)


@app.job
async def file_expense(job: Job, who: str, cents: int) -> Continuation[str]:
    print(f"worker: {who} filed {cents / 100:.2f} EUR; now somebody has to approve it")
    return job.continue_with(approval.request(who))


@app.job
async def pay_out(job: Job[str], who: str, cents: int) -> str:
    (approver,) = job.blockers
    print(f"worker: {cents / 100:.2f} EUR paid to {who}, approved by {approver}")
    return "paid"


class Web(BaseHTTPRequestHandler):
    """`POST /expenses/SEQUENCE/approve`, with the approver's name as its body."""

    def do_POST(self) -> None:
        _, _, sequence_id, _ = self.path.split("/")
        approver = self.rfile.read(int(self.headers["Content-Length"])).decode()
        try:
            with app.sync.complete_sequence(sequence_id, approval) as completion:
                completion.complete(approver)
        except JobNotFound:
            self.answer(404, "there is no such expense")
        except WrongState:
            self.answer(409, "it has been approved already")
        else:
            self.answer(200, "thank you")

    def answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


def post(url: str, body: str) -> str:
    """Sends the request that a browser would send."""
    request = urllib.request.Request(url, body.encode(), method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return f"{response.status} {response.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


async def main() -> None:
    web = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    async with app:
        worker = app.worker()
        await worker.start()
        expense = await app.start(file_expense.request("Ada", 4200))
        payment = await app.start(pay_out.request("Ada", 4200).using(blockers=(expense,)))
        while (current := await app.current(expense)).type != "approval":
            await asyncio.sleep(0.05)
        print(f"the expense is at {current.type!r}, which is {current.state}")
        print(f"the payment is {(await payment.get()).state}")
        url = f"http://127.0.0.1:{web.server_port}/expenses/{expense.id}/approve"
        print(f"web:    Grace approves: {await asyncio.to_thread(post, url, 'Grace')}")
        print(f"the payment is {await payment.result(timeout=10)}")
        print(f"web:    Grace approves again: {await asyncio.to_thread(post, url, 'Grace')}")
        await worker.stop()
    web.shutdown()
    web.server_close()
    app.sync.close()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    finally:
        shutil.rmtree(FOLDER)
