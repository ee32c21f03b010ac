# A reader that joins is also counted for batches before its first.
# expect: owed
/^void tally_join/,/^}/ s/tally->owed\[slot\] += .*;/tally->owed[slot] += 1;/
