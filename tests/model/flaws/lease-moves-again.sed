# A slot is moved to LEASED by everyone who is leased it: the tally's own assertion stops that.
# expect: assert
/^void tally_lease/,/^}/ s/if (tally->state\[slot\] == SLOT_READY)/if (tally->state[slot] != SLOT_FREE)/
