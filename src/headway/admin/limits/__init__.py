"""Limits of queues for operators: overrides, holds, permits in use, and why a job has no permit.
Used by the questions and actions of `headway.admin`.
"""
