"""Operations on schedules: declare, fire, put, pause, trigger, backfill, delete. Workers, clients
and operators run them; stores keep schedules, and the domain decides which ticks start a job."""
