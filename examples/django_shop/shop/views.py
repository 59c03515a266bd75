import json

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from headway.django import app
from shop.jobs import charge
from shop.models import Order


@csrf_exempt
@require_POST
@transaction.atomic
def place(request: HttpRequest) -> JsonResponse:
    order = Order.objects.create(cents=json.loads(request.body)["cents"])
    payment = app.sync.start(charge.request(order.pk))  # committed with the order, or not at all
    if order.cents <= 0:
        transaction.set_rollback(True)
        return JsonResponse({"error": "an order costs something"}, status=400)
    return JsonResponse({"order": order.pk, "job": payment.id}, status=201)


@require_GET
def show(_: HttpRequest, order_id: int) -> JsonResponse:
    order = get_object_or_404(Order, pk=order_id)
    return JsonResponse({"receipt": order.receipt, "mailed": order.mailed})


@require_GET
def job(_: HttpRequest, job_id: str) -> JsonResponse:
    return JsonResponse({"state": app.sync.get(job_id).state})
