"""Operations on the limits of queues: claim under limits, declare, override, hold, spend. Workers
and operators run them; stores keep queues, and the domain decides how many jobs may be claimed."""
