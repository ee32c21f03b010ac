# A reader that leaves gives back the slots that it is still owed, not those that it holds.
# expect: lost-slot
/^uint64_t tally_leave/,/^}/ s/tally_waits(tally, reader, slot)/tally_wants(reader, tally->serial[slot])/
