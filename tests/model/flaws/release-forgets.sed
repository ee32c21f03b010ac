# A released slot still counts as held.
# expect: owed
/^bool tally_release/,/^}/ s/reader->held &= .*;/;/
