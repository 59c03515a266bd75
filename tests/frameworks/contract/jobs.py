"""Job types of these tests, found by Django."""

from __future__ import annotations

import os

from django.apps import apps

from headway.django import app


@app.job(isolate=True, timeout=60)
def elsewhere() -> list[int | bool]:
    return [os.getpid(), apps.ready, len(apps.get_models()) > 0]


@app.job
async def on_the_loop() -> int:
    from shop.models import Order

    return await Order.objects.acount()
