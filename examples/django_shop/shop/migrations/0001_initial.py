from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = (
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False)),
                ("cents", models.IntegerField()),
                ("receipt", models.CharField(blank=True, max_length=100)),
                ("mailed", models.IntegerField(default=0)),
            ],
        ),
    )
