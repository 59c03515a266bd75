"""Operations on schedules: declare, fire, put, pause, trigger, backfill, delete. Workers and clients
run them; stores keep schedules, and the domain decides which ticks start a job."""
