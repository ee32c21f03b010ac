# A reader that leaves is not removed.
# expect: list
/^uint64_t tally_leave/,/^}/ s/tally_unlink(tally, reader);/(void)tally_unlink;/
