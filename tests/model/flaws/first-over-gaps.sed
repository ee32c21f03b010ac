# The oldest batch in a slot counts, although later ones have gone.
# expect: gone
/^uint64_t tally_first/,/^}/ s/first--;/first--, first -= first > 0 \&\& tally_find(tally, first - 1) < 0;/
