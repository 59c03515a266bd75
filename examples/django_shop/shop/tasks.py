"""A task of Django's own framework; settings.TASKS makes a job of it."""

from shop.models import Order

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@task(queue_name="mail", priority=10)
def mail_receipt(order_id: int) -> str:
    order = Order.objects.get(pk=order_id)
    order.mailed += 1
    order.save()
    return f"{order.receipt} is on its way"
