# A late reader begins one batch too late.
# expect: passed
/^uint64_t tally_first/,/^}/ s/return first;/return first + 1;/
