from __future__ import annotations

from django.db import migrations

from headway.django.schema import ApplyStep


class Migration(migrations.Migration):
    dependencies = (("headway", "0001_initial"),)
    operations = (ApplyStep(2),)
