# Who leaves gives back what it was still owed, not what it holds.
# expect: lost-slot
/^uint64_t tally_leave/,/^}/ s/tally_waits(tally, reader, slot)/tally_wants(reader, tally->serial[slot])/
