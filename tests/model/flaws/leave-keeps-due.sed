# Who leaves gives back what it holds, not what it was still owed.
# expect: lost-slot
/^uint64_t tally_leave/,/^}/ s/tally_waits(tally, reader, slot)/(reader->held \& 1ull << slot)/
