# Who joins is counted for batches before its first, too.
# expect: owed
/^void tally_join/,/^}/ s/tally->owed\[slot\] += .*;/tally->owed[slot] += 1;/
