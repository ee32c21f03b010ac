# A batch is leased while workers write it.
# expect: overwritten
/^int tally_due/,/^}/ s/ \&\& tally_complete(tally, (uint32_t)slot)//
