# A reader that leaves gives back the slots that it holds, not those that it is still owed.
# expect: lost-slot
/^uint64_t tally_leave/,/^}/ s/tally_waits(tally, reader, slot)/(reader->held \& 1ull << slot)/
