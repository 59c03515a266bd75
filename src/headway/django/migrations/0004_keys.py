from __future__ import annotations

from django.db import migrations

from headway.django.schema import ApplyStep


class Migration(migrations.Migration):
    atomic = False  # PostgreSQL builds the index while jobs run
    dependencies = (("headway", "0003_limits"),)
    operations = (ApplyStep(4),)
