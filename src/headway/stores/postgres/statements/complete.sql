-- The fast path: jobs for which no other job waits.
/*completion*/
    and not j.awaited
returning j.id
