from __future__ import annotations

from django.db import migrations

from headway.django.schema import ApplyStep


class Migration(migrations.Migration):
    dependencies = (("headway", "0002_schedules"),)
    operations = (ApplyStep(3),)
