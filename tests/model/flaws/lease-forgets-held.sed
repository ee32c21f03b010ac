# A leased slot does not count as held.
# expect: owed
s/reader->held |= 1ull << slot;//
