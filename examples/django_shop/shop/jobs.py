"""Job types: `headway.django` imports the `jobs` module of each app."""

from django.db import transaction

from headway.django import app
from shop.models import Order
from shop.tasks import mail_receipt


@app.job
def charge(order_id: int) -> str:
    with transaction.atomic():
        order = Order.objects.select_for_update().get(pk=order_id)
        order.receipt = f"receipt-{order.pk}-{order.cents}"
        order.save()
        mail_receipt.enqueue(order.pk)  # in the same transaction
    return order.receipt
