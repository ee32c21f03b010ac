# Two readers that keep the same batch do not count as laggards.
# expect: progress
# world: 2x3
/^bool tally_blocks/,/^}/ s/return starves/return tally->owed[oldest] == 1 \&\& starves/
