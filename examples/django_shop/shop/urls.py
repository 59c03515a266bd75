from django.urls import path

from shop import views

urlpatterns = [
    path("orders", views.place),
    path("orders/<int:order_id>", views.show),
    path("jobs/<job_id>", views.job),
]
