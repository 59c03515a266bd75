from __future__ import annotations

from django.db import migrations

from headway.django.schema import ApplyStep


class Migration(migrations.Migration):
    initial = True
    operations = (ApplyStep(1),)
