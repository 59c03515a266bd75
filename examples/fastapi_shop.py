"""A shop on FastAPI and SQLAlchemy: an order and its payment are committed together, the worker
runs in the server's process, and the dashboard is mounted at /jobs.

Run it: `python examples/fastapi_shop.py`, and then

    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"cents": 1999}'
    curl localhost:8000/orders/1

SHOP_DATABASE names a database, such as postgresql+asyncpg://user:password@host/shop.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from pydantic import BaseModel, Field
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from headway import Headway, Job
from headway.fastapi import Jobs, lifespan
from headway.web import Token, create_dashboard

DATABASE = os.environ.get("SHOP_DATABASE", "sqlite+aiosqlite:///shop.db")
engine = create_async_engine(DATABASE)
sessions = async_sessionmaker(engine, expire_on_commit=False)
jobs = Headway(DATABASE, transactions=sessions.begin, migrate=True)


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    cents: Mapped[int]
    state: Mapped[str] = mapped_column(default="new")


@jobs.job
async def charge(job: Job, order_id: int) -> str:
    receipt = f"receipt-{order_id}"  # a payment service would be asked here, in no transaction
    session: AsyncSession = await job.complete()
    order = await session.get_one(Order, order_id)
    order.state = "paid"
    await jobs.start(ship.request(order_id), tx=session)
    return receipt  # the order, the next job and this are committed together


@jobs.job(atomic=True)
async def ship(job: Job, order_id: int) -> None:
    order = await job.tx.get_one(Order, order_id)
    order.state = "shipped"


@asynccontextmanager
async def tables(_: FastAPI) -> AsyncGenerator[None]:
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield
    await engine.dispose()


async def transaction() -> AsyncGenerator[AsyncSession]:
    async with sessions.begin() as session:
        yield session


Session = Annotated[AsyncSession, Depends(transaction, scope="function")]
"""Committed before the answer is sent; rolled back if the request fails."""


class NewOrder(BaseModel):
    cents: int = Field(gt=0)
    fails: bool = False


api = FastAPI(lifespan=lifespan(jobs, worker=True, inside=tables))
api.mount(
    "/jobs",
    create_dashboard(jobs, auth=Token(os.environ.get("SHOP_TOKEN", "only-an-example-token"))),
)


@api.post("/orders", status_code=201)
async def place(new: NewOrder, session: Session, jobs: Jobs) -> dict[str, str | int]:
    order = Order(cents=new.cents)
    session.add(order)
    await session.flush()
    payment = await jobs.start(charge.request(order.id), tx=session)
    if new.fails:
        raise HTTPException(409, "neither the order nor its payment exists")
    return {"order": order.id, "job": payment.id}


@api.get("/orders/{order_id}")
async def show(order_id: int, session: Session) -> dict[str, str | int]:
    order = await session.get(Order, order_id)
    if order is None:
        raise HTTPException(404, "there is no such order")
    return {"order": order.id, "state": order.state}


if __name__ == "__main__":
    uvicorn.run(api, port=int(os.environ.get("SHOP_PORT", "8000")))
