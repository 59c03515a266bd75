"""Run by Django: `python examples/django_shop/manage.py test shop`."""

from django.core.management import call_command
from django.db import transaction
from django.test import TestCase, TransactionTestCase

from headway.django import app
from shop.jobs import charge
from shop.models import Order
from shop.tasks import mail_receipt


class Enqueueing(TestCase):
    """In a transaction that the test rolls back; on Django's own connection."""

    def test_an_order_starts_its_payment(self) -> None:
        answer = self.client.post("/orders", {"cents": 1999}, content_type="application/json")
        assert answer.status_code == 201
        job = app.sync.get(answer.json()["job"])
        assert job.type == "charge"
        assert job.state == "pending"

    def test_an_order_that_is_refused_starts_nothing(self) -> None:
        answer = self.client.post("/orders", {"cents": 0}, content_type="application/json")
        assert answer.status_code == 400
        assert Order.objects.count() == 0
        assert app.sync.list().jobs == []

    def test_a_savepoint_takes_its_job_with_it(self) -> None:
        with transaction.atomic():
            undone = app.sync.start(charge.request(1))
            transaction.set_rollback(True)
        assert undone.id not in [job.id for job in app.sync.list().jobs]


class Working(TransactionTestCase):
    """With real commits, so that a worker sees the started jobs."""

    def test_the_payment_is_made_and_the_receipt_mailed(self) -> None:
        answer = self.client.post("/orders", {"cents": 1999}, content_type="application/json")
        call_command("headway", "worker", "--drain")
        order = Order.objects.get(pk=answer.json()["order"])
        assert order.receipt == f"receipt-{order.pk}-1999"
        assert order.mailed == 1

    def test_a_task_yields_its_result(self) -> None:
        order = Order.objects.create(cents=1, receipt="receipt-1")
        result = mail_receipt.enqueue(order.pk)
        assert result.status == "READY"
        call_command("headway", "worker", "--drain")
        result.refresh()
        assert result.return_value == "receipt-1 is on its way"
