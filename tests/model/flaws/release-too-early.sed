# A slot is free before the last reader has given it back.
# expect: overwritten
s/--tally->owed\[slot\] > 0/--tally->owed[slot] > 1/
