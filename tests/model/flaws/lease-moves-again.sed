# Every lease moves a slot to LEASED: the tally's assertion fails.
# expect: assert
/^void tally_lease/,/^}/ s/if (tally->state\[slot\] == SLOT_READY)/if (tally->state[slot] != SLOT_FREE)/
