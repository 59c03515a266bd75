from django.db import models


class Order(models.Model):
    cents = models.IntegerField()
    receipt = models.CharField(max_length=100, blank=True)
    mailed = models.IntegerField(default=0)
